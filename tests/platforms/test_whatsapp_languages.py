"""An export of WhatsApp is read alike whatever language the phone speaks."""

import unicodedata
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.platforms.reading import Read, read_path


@dataclass(frozen=True, kw_only=True)
class Phone:
    """How a phone of one language writes the export of the chat with `Zoë`."""

    file: str
    android: str
    iphone: str
    encrypted: str
    media: str
    image: str
    deleted: str
    attached: str
    # None: not known for this language
    edited: str | None = None


# Phrases and forms are those that other projects' tables and the exports in their issues show, none made up here.
PHONES = {
    "english": Phone(
        file="WhatsApp Chat with Zoë",
        android="1/31/26, 9:41\u202fPM - ",
        iphone="[1/31/26, 9:41:07\u202fPM] ",
        encrypted="Messages and calls are end-to-end encrypted. Only people in this chat can read them.",
        media="Media omitted",
        image="image omitted",
        deleted="This message was deleted",
        attached="file attached",
        edited="This message was edited",
    ),
    "german": Phone(
        file="WhatsApp-Chat mit Zoë",
        android="31.01.26, 21:41 - ",
        iphone="[31.01.26, 21:41:07] ",
        encrypted="Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt. Niemand sonst kann sie lesen.",
        media="Medien ausgeschlossen",
        image="Bild weggelassen",
        deleted="Diese Nachricht wurde gelöscht.",
        attached="Datei angehängt",
        edited="Diese Nachricht wurde bearbeitet.",
    ),
    "spanish": Phone(
        file="Chat de WhatsApp con Zoë",
        android="31/1/26, 21:41 - ",
        iphone="[31/1/26, 21:41:07] ",
        encrypted="Los mensajes y las llamadas están cifrados de extremo a extremo. Nadie más puede leerlos.",
        media="Multimedia omitido",
        image="imagen omitida",
        deleted="Se eliminó este mensaje.",
        attached="archivo adjunto",
        edited="Se editó este mensaje.",
    ),
    "portuguese": Phone(
        file="Conversa do WhatsApp com Zoë",
        android="31/01/2026 21:41 - ",
        iphone="[31/01/2026, 21:41:07] ",
        encrypted="As mensagens e as chamadas são protegidas com a criptografia de ponta a ponta.",
        media="Mídia oculta",
        image="imagem ocultada",
        deleted="Mensagem apagada",
        attached="arquivo anexado",
        edited="Mensagem editada",
    ),
    "french": Phone(
        file="Discussion WhatsApp avec Zoë",
        android="31/01/2026 à 21:41 - ",
        iphone="[31/01/2026 21:41:07] ",
        encrypted="Les messages et les appels sont chiffrés de bout en bout. Aucun tiers ne peut les lire.",
        media="Médias omis",
        image="image absente",
        deleted="Ce message a été supprimé",
        attached="fichier joint",
        edited="Ce message a été modifié",
    ),
    "italian": Phone(
        file="Chat WhatsApp con Zoë",
        android="31/01/26, 21:41 - ",
        iphone="[31/01/26, 21:41:07] ",
        encrypted="I messaggi e le chiamate sono crittografati end-to-end. Nessuno al di fuori può leggerli.",
        media="Media omessi",
        image="immagine omessa",
        deleted="Questo messaggio è stato eliminato",
        attached="file allegato",
        edited="Questo messaggio è stato modificato",
    ),
    "dutch": Phone(
        file="WhatsApp-chat met Zoë",
        android="31-01-2026 21:41 - ",
        iphone="[31-01-2026 21:41:07] ",
        encrypted="Berichten en gesprekken worden end-to-end versleuteld. Niemand buiten deze chat kan ze lezen.",
        media="Media weggelaten",
        image="afbeelding weggelaten",
        deleted="Dit bericht is verwijderd",
        attached="bestand bijgevoegd",
        edited="Dit bericht is bewerkt",
    ),
    "russian": Phone(
        file="Чат WhatsApp с Zoë",
        android="31.01.2026, 21:41 - ",
        iphone="[31.01.2026, 21:41:07] ",
        encrypted="Сообщения и звонки защищены сквозным шифрованием. Третьи лица не могут прочитать ваши сообщения.",
        media="Без медиафайлов",
        image="изображение отсутствует",
        deleted="Данное сообщение удалено",
        attached="файл добавлен",
        edited="Сообщение изменено",
    ),
    "ukrainian": Phone(
        file="Бесіда WhatsApp з Zoë",
        android="31.01.26, 21:41 - ",
        iphone="[31.01.26, 21:41:07] ",
        encrypted="Повідомлення й дзвінки захищено наскрізним шифруванням.",
        media="Медіа пропущено",
        image="зображення відсутнє",
        deleted="Це повідомлення було видалено",
        attached="файл додано",
    ),
    "turkish": Phone(
        file="Zoë ile WhatsApp Sohbeti",
        android="31.01.2026 21:41 - ",
        iphone="[31.01.2026 21:41:07] ",
        encrypted="Mesajlar ve aramalar uçtan uca şifrelidir.",
        media="Medya dahil edilmedi",
        image="görüntü dahil edilmedi",
        deleted="Bu mesaj silindi",
        attached="dosya ekli",
        edited="Bu mesaj düzenlendi",
    ),
    "polish": Phone(
        file="Czat WhatsApp z Zoë",
        android="31.01.2026, 21:41 - ",
        iphone="[31.01.2026, 21:41:07] ",
        encrypted="Wiadomości i połączenia są w pełni szyfrowane.",
        media="pominięto multimedia",
        image="obraz pominięty",
        deleted="Ta wiadomość została usunięta",
        attached="załączony plik",
        edited="Ta wiadomość została zmieniona",
    ),
    "romanian": Phone(
        file="Conversație WhatsApp cu Zoë",
        android="31.01.2026, 21:41 - ",
        iphone="[31.01.2026, 21:41:07] ",
        encrypted="Mesajele și apelurile sunt criptate integral.",
        media="Conținut media omis",
        image="Imagine omisă",
        deleted="Acest mesaj a fost șters",
        attached="fișier atașat",
    ),
    "swedish": Phone(
        file="WhatsApp-chatt med Zoë",
        android="2026-01-31 21:41 - ",
        iphone="[2026-01-31, 21:41:07] ",
        encrypted="Meddelanden och samtal är komplett krypterade.",
        media="Media har utelämnats",
        image="bild utesluten",
        deleted="Det här meddelandet raderades",
        attached="bifogad fil",
    ),
    "finnish": Phone(
        file="WhatsApp-keskustelu henkilön Zoë kanssa",
        android="31.1.2026 klo 21.41 - ",
        iphone="[31.1.2026 klo 21.41.07] ",
        encrypted="Viestit ja puhelut salataan täysin.",
        media="Media jätetty pois",
        image="videota ei sisällytetä",
        deleted="Tämä viesti poistettiin",
        attached="liitetiedosto",
    ),
    "hungarian": Phone(
        file="WhatsApp csevegés vele: Zoë",
        android="2026. 01. 31. 21:41 - ",
        iphone="[2026. 01. 31. 21:41:07] ",
        encrypted="Az üzenetek és hívások végpontok közötti titkosítással vannak védve.",
        media="Média kihagyva",
        image="Videó kihagyva",
        deleted="Ez az üzenet törlésre került",
        attached="fájl csatolva",
    ),
    "greek": Phone(
        file="Συνομιλία WhatsApp με Zoë",
        android="31/1/26, 9:41 μ.μ. - ",
        iphone="[31/1/26, 9:41:07 μ.μ.] ",
        encrypted="Τα μηνύματα και οι κλήσεις κρυπτογραφούνται πλήρως.",
        media="Εξαίρεση πολυμέσων",
        image="εικόνα παραλείφθηκε",
        deleted="Αυτό το μήνυμα διαγράφηκε",
        attached="συνημμένο αρχείο",
    ),
    "indonesian": Phone(
        file="Chat WhatsApp dengan Zoë",
        android="31/01/26 21.41 - ",
        iphone="[31/01/26 21.41.07] ",
        encrypted="Pesan dan panggilan terenkripsi secara end-to-end.",
        media="Media tidak disertakan",
        image="gambar tidak disertakan",
        deleted="Pesan ini dihapus",
        attached="file terlampir",
        edited="Pesan ini diedit",
    ),
    "vietnamese": Phone(
        file="Trò chuyện WhatsApp với Zoë",
        android="31/01/2026, 21:41 - ",
        iphone="[31/01/2026, 21:41:07] ",
        encrypted="Tin nhắn và cuộc gọi được mã hóa đầu cuối.",
        media="Bỏ qua tệp phương tiện",
        image="đã bỏ qua hình ảnh",
        deleted="Tin nhắn này đã bị xóa",
        attached="tệp đính kèm",
    ),
    "thai": Phone(
        file="แชท WhatsApp กับ Zoë",
        android="31/1/2569 21:41 - ",
        iphone="[31/1/2569 21:41:07] ",
        encrypted="ข้อความและการโทรได้รับการเข้ารหัสจากต้นทางถึงปลายทาง",
        media="สื่อถูกลบ",
        image="ไม่มีรูปภาพ",
        deleted="ข้อความนี้ถูกลบแล้ว",
        attached="ไฟล์ที่แนบ",
    ),
    "japanese": Phone(
        file="ZoëとのWhatsAppチャット",
        android="2026/01/31 21:41 - ",
        iphone="[2026/01/31 21:41:07] ",
        encrypted="メッセージと通話はエンドツーエンド暗号化されています。",
        media="メディアは含まれていません",
        image="画像は含まれていません",
        deleted="このメッセージは削除されました。",
        attached="添付ファイル有り",
    ),
    "korean": Phone(
        file="Zoë님과의 WhatsApp 대화",
        android="2026. 1. 31. 오후 9:41 - ",
        iphone="[2026. 1. 31. 오후 9:41:07] ",
        encrypted="메시지 및 전화는 종단간 암호화되어 안전합니다.",
        media="미디어 파일을 생략한 대화내용",
        image="이미지 생략됨",
        deleted="이 메시지는 삭제되었습니다",
        attached="파일 첨부됨",
    ),
    "chinese": Phone(
        file="与Zoë的 WhatsApp 聊天",
        android="2026/1/31 21:41 - ",
        iphone="[2026/1/31 21:41:07] ",
        encrypted="消息和通话已进行端到端加密。只有此对话中的成员可以查看。",
        media="省略多媒体文件",
        image="照片已忽略",
        deleted="这条消息已删除。",
        attached="文件附件",
    ),
    "chinese of Taiwan": Phone(
        file="與Zoë的 WhatsApp 對話",
        android="2026/1/31 下午9:41 - ",
        iphone="[2026/1/31 下午9:41:07] ",
        encrypted="訊息與通話已受端對端加密保護。",
        media="忽略多媒體檔",
        image="圖片已略去",
        deleted="此訊息已刪除。",
        attached="附件檔案",
    ),
    "arabic": Phone(
        file="دردشة واتساب مع Zoë",
        android="٣١\u200f/١\u200f/٢٠٢٦، ٩:٤١ م - ",
        iphone="\u200f[٣١\u200f/١\u200f/٢٠٢٦، ٩:٤١:٠٧ م] ",
        encrypted="الرسائل والمكالمات مشفرة تمامًا بين الطرفين",
        media="تم استبعاد الوسائط",
        image="لم يتم إدراج الصورة",
        deleted="تم حذف هذه الرسالة",
        attached="الملف مرفق",
        edited="تم تعديل هذه الرسالة",
    ),
    "hebrew": Phone(
        file="צ'אט WhatsApp עם Zoë",
        android="31.1.2026, 21:41 - ",
        iphone="[31.1.2026, 21:41:07] ",
        encrypted="ההודעות והשיחות מוצפנות מקצה-לקצה.",
        media="המדיה לא נכללה",
        image="התמונה הושמטה",
        deleted="הודעה זו נמחקה",
        attached="קובץ מצורף",
        edited="הודעה זו נערכה",
    ),
    "hindi": Phone(
        file="Zoë के साथ WhatsApp चैट",
        android="31/01/26, 9:41 pm - ",
        iphone="[31/01/26, 9:41:07 PM] ",
        encrypted="मैसेजेस और कॉल्स एंड-टू-एंड एन्क्रिप्टेड हैं.",
        media="मीडिया के बिना",
        image="फ़ोटो हटाई गई",
        deleted="यह मैसेज डिलीट कर दिया गया है",
        attached="फाइल अटैच कर दी गई है",
    ),
}
SENT = datetime(2026, 1, 31, 20, 41, tzinfo=UTC)
of_every_phone = pytest.mark.parametrize("phone", PHONES.values(), ids=PHONES)


def export(folder: Path, file: str, *lines: str) -> Read:
    path = folder / file
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_path(path, time_zone="Europe/Berlin")


def counts(read: Read) -> Counter[str]:
    return Counter(skipped.reason for skipped in read.skipped)


@of_every_phone
def test_an_android_phone_of_any_language_tells_the_same_chat(tmp_path: Path, phone: Phone) -> None:
    # a Mac takes accents apart when it writes a file's name
    chat = export(
        tmp_path,
        f"{unicodedata.normalize('NFD', phone.file)}.txt",
        f"{phone.android}{phone.encrypted}",
        f"{phone.android}Zoë: Fähre 8:30, паром, 渡輪 ⛴",
        f"{phone.android}Łukasz: <{phone.media}>",
        f"{phone.android}Łukasz: IMG-20260131-WA0003.jpg ({phone.attached})",
        f"{phone.android}Zoë: {phone.deleted}",
        f"{phone.android}Łukasz: ок <{phone.edited}>" if phone.edited else f"{phone.android}Łukasz: ок",
    )
    assert chat.contents[0] == "Fähre 8:30, паром, 渡輪 ⛴"
    assert chat.contents[1].startswith("[")
    assert chat.contents[2:] == ["[image]", "ок"]
    assert counts(chat) == {"system line": 1, "deleted message": 1}
    assert [message.sender_name for message in chat.messages] == ["Zoë", "Łukasz", "Łukasz", "Łukasz"]
    assert {message.sent_at for message in chat.messages} == {SENT}
    assert chat.messages[-1].metadata.get("edited", False) is (phone.edited is not None)
    assert (chat.chats[-1].title, chat.chats[-1].kind) == ("Zoë", "direct")
    assert not chat.broken + chat.notices  # type: ignore[operator]


@pytest.mark.parametrize("mark", ["\u200e", ""], ids=["marked", "unmarked"])
@of_every_phone
def test_an_iphone_of_any_language_tells_the_same_chat(tmp_path: Path, phone: Phone, mark: str) -> None:
    chat = export(
        tmp_path,
        "WhatsApp Chat - Zoë.txt",
        f"{phone.iphone}Zoë: {mark}{phone.encrypted}",
        f"{phone.iphone}Zoë: Fähre 8:30, паром, 渡輪 ⛴",
        f"{mark}{phone.iphone}Łukasz: {mark}{phone.image}",
        f"{phone.iphone}Zoë: {mark}{phone.deleted}",
        f"{phone.iphone}Łukasz: ок \u200e<{phone.edited or 'in words that nobody listed'}>",
    )
    assert chat.contents[0] == "Fähre 8:30, паром, 渡輪 ⛴"
    assert chat.contents[1] in {"[image]", "[video]"}
    assert chat.contents[2:] == ["ок"]
    assert counts(chat) == {"system line": 1, "deleted message": 1}
    assert {message.sent_at for message in chat.messages} == {SENT + timedelta(seconds=7)}
    assert chat.messages[-1].metadata == {"edited": True}
    assert (chat.chats[-1].title, chat.chats[-1].kind) == ("Zoë", "direct")


@pytest.mark.parametrize(
    "line",
    [
        "Zoë Åberg added you to a group in the community: Segelverein",
        "You joined a group via invite in the community: Segelverein",
        "+47 21 00 00 00 added you to a group in the community: Regatta: 2026",
        'Zoë Åberg pievienoja jūs šai kopienas grupai: "Burātāji"',
        "Izmantojot ielūgumu, jūs pievienojāties kopienas grupai: Burātāji",
        # of the same kind, in words of our own
        "Zoë hat dich zu einer Gruppe in der Community hinzugefügt: Verein",
        "Zoë te añadió a un grupo de la comunidad: Vela",
        "Zoë adicionou você a um grupo da comunidade: Vela",
        "Zoë vous a ajouté à un groupe de la communauté: Voile",
        "Zoë ti ha aggiunto a un gruppo della community: Vela",
        "Zoë heeft je toegevoegd aan een groep in de community: Zeilen",
        "Анна добавила вас в группу в сообществе: Паруса",
        "Zoë sizi bu topluluktaki bir gruba ekledi: Yelken",
        "Zoë dodał Cię do grupy w społeczności: Żagle",
        "You are an admin of the community: Segelverein",
    ],
)
def test_a_community_is_nobody(tmp_path: Path, line: str) -> None:
    start = "31.01.26, 21:41 - "
    chat = export(
        tmp_path, "WhatsApp Chat with Boot.txt", f"{start}{line}", f"{start}Zoë Åberg: los", f"{start}Eva: ok"
    )
    assert [message.sender_name for message in chat.messages] == ["Zoë Åberg", "Eva"]
    assert counts(chat) == {"system line": 1}


@pytest.mark.parametrize(
    "name", ["Community Nord", "Группа поддержки", "Mama 🌻 vom Gruppenchor", "社群小編"]
)
def test_somebody_may_be_called_after_a_group_or_community(tmp_path: Path, name: str) -> None:
    chat = export(tmp_path, "WhatsApp Chat with Boot.txt", f"31.01.26, 21:41 - {name}: Kommt ihr?")
    assert [message.sender_name for message in chat.messages] == [name]


@pytest.mark.parametrize(
    ("placeholder", "content"),
    [
        ("<View once voice message omitted>", "[audio]"),
        ("<View once photo omitted>", "[image]"),
        ("<View once message omitted>", "[media]"),
        ("<Video note omitted>", "[video]"),
        ("<Sticker omitted>", "[sticker]"),
        ("<Görüntülü not dahil edilmedi>", "[video]"),
        ("<Foto zur einmaligen Ansicht ausgeschlossen>", "[image]"),
        ("<стикер не добавлен>", "[sticker]"),
        ("<ビデオは含まれていません>", "[video]"),
        ("<تم حذف الملصقات>", "[sticker]"),
    ],
)
def test_what_is_seen_once_or_is_short_stays_visible(tmp_path: Path, placeholder: str, content: str) -> None:
    file, start = "WhatsApp Chat with Boot.txt", "31.01.26, 21:41 - Eva: "
    assert export(tmp_path, file, f"{start}{placeholder}").contents == [content]
    assert export(tmp_path, file, f"{start}{placeholder}\nsieh mal").contents == [f"{content} sieh mal"]


@pytest.mark.parametrize(
    "typed", ["<3", "<the rest omitted>", "<Fotos folgen>", "video omitted", "missed call"]
)
def test_what_only_looks_like_a_placeholder_is_text(tmp_path: Path, typed: str) -> None:
    chat = export(tmp_path, "WhatsApp Chat with Boot.txt", f"31.01.26, 21:41 - Eva: {typed}")
    assert chat.contents == [typed]
