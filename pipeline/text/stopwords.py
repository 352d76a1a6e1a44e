"""Stop words of the languages that chats mostly use."""

# Function words, then what people say to each other whatever the subject is.
_ENGLISH = """
a about above after again against ago all almost alone along already also although always am among an and
another any anybody anyone anything anyway are aren't around as ask asked at away back be became because become
been before behind being below beside between both but by came can can't cannot come comes coming could couldn't
did didn't do does doesn't doing don't done down during each either else end enough even ever every everybody
everyone everything except few first for from front full further gave get gets getting give given gives giving go
goes going gone gonna gotta got had hadn't half has hasn't have haven't having he he'd he'll he's her here hers
herself him himself his how however i i'd i'll i'm i've if in inside instead into is isn't it it'd it'll it's its
itself just keep keeps kept kind knew know knows known last late later least less let let's lets like likely
little long look looked looking looks lot lots made make makes making many may maybe me mean means might mine more
most much must my myself near need needed needs never next no nobody none nor not nothing now of off often on once
one ones only onto or other others our ours out over own part perhaps put puts quite rather really round said same
saw say saying says see seem seems seen several shall she she'd she'll she's should shouldn't show since so some
somebody someone something sometimes somewhere soon still such take taken takes taking tell tells than that that's
the their theirs them themselves then there there's these they they'd they'll they're they've thing things think
thinking this those though thought through till to together told too took toward towards tried try trying turn two
under unless until up upon us use used uses using usually very via wanna want wanted wants was wasn't way ways we
we'd we'll we're we've well went were weren't what what's whatever when whenever where whether which while who
who's whole whom whose why will with within without won't word would wouldn't yes yet you you'd you'll you're
you've your yours yourself yourselves
able absolutely actually agree amazing asap awesome awful bad basically beautiful best better big bit bro btw bye
care certainly check chance cheers clear close cool course crazy cute day days dear deal definitely different dude
easy especially exactly excited exciting fab fabulous fair family fantastic fave favorite favourite feel feeling
feelings feels fine folks found free friend friends fun funny future gladly glad good goodbye gosh great guess guy
guys hah haha hahaha hand happen happened happening happens happy hard hear heard hello help helped helping helps
here's hey hi hmm hold honestly hope hopefully hoping hour hours huge idea idk important incredible indeed inspiring
interesting jeez keeping laugh learn leave left life literally live lmao lol lord love loved lovely loving luck
lucky man matter meant meet minute minutes mind miss moment moments month months morning nah nearly neat new nice
night nope obviously oh ok okay old omg oops ooh pass past people perfect person pick place plan planning plans
please plus point pop possible pretty probably problem proud quick quickly quiet ready real reason recently
remember remind right rly sad salute seriously share sharing short sigh simple small sorry sort sounds special
spend start started stay stop story stuff such super support supposed supportive sure surely sweet sweetie talk
talked talking terrible thank thanks thats thx time times tiny today tomorrow tonight tomorrow totally touch true
truly ugh uh um understand unfortunately update ur vibe wait waiting watch week weekend weeks weird welcome what're
whoa wish won wonder wonderful wonderfully wondering words work worked working works world worry worse worst worth
wow write wrong ya yay yea yeah year years yep yesterday yo yup
appreciate appreciated believe bring brings brought call called catch catching chat enjoy enjoyed enjoying face far
forward goals grateful journey impressive join keepin means meaningful opportunity passion positive powerful rock
send sent shared shows shot step stories strong such surprise sweetheart thoughtful thoughts top treat treasure try
awesomeness blast chatting definite doin how's i'd lemme ones peace photo photos pic pics picture pictures
sounds start stay strength such thankful wanna where's wishing
three four five six seven eight nine ten hundred thousand second third double
monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri
dont cant doesnt didnt isnt wasnt wont hes shes theyre youre ive im ill mate
ourselves myself difference tough agreed decided confidence exactly honestly name number
"""

_OTHERS = """
de da do das dos na nas nos em um uma uns umas que não nao sim com por para pra se mas mais como quando onde quem
ele ela eles elas eu tu você voce vocês nós isso isto esse essa este esta aqui ali já ja só so também tambem muito
foi ser está esta estou são tenho vai vou ao aos às à o os as e ou meu minha seu sua kkk kkkk kkkkk gente né
el la los las un unos unas y en del al lo le les su sus mi mis tu tus me te nos pero más muy sí si ya hay es fue
está están era como cuando donde quien qué que porque para por con sin sobre este esta estos jaja jajaja
le la les des du une et est sont dans pour pas sur avec il elle ils elles nous vous je tu mon ma mes ton ta tes
sa ses ce cette ces qui que quoi où mais ou donc ne plus très bien oui non aussi été être avoir fait mdr
der das den dem des ein eine einen einem einer und oder aber nicht ist sind ich du er sie es wir ihr
mich mir dich dir sich uns euch mein meine dein deine sein seine mit von zu zum zur im am auf für bei nach aus über
auch noch nur schon doch ja nein wenn dann dass wie was wer wo hier da mal so sehr haben hat hatte wird werden kann
il lo gli i di che non è e un una sono per con del della dei nel nella si mi ti ci vi ma anche come quando più
de het een en van ik je hij zij wij niet is zijn was met voor op aan te dat maar ook nog wel naar als bij
и в не на я что он с как это а то все она так его но да ты к у же вы за бы по ее мне было вот от меня еще нет о из
"""

STOPWORDS = frozenset(f"{_ENGLISH} {_OTHERS}".split())

# Before a noun more often than before anything else.
_BEFORE_NOUNS = """
a an the my your our his her their this that some any no of o um uma el la le les un une der die das ein eine
"""

DETERMINERS = frozenset(_BEFORE_NOUNS.split())
