"""What other platforms write down, read as our messages.

Every module here is pure: a parser is a generator over lines, bytes or names that somebody else has opened,
and yields what `records` defines. It never raises because of what a file holds: what cannot be read comes
out as `Broken`, with its place and the reason, and the parser goes on.

    records      what parsers are given and what they yield
    identity     ids for messages that came without one
    formats      which format is this, and which parser reads it
    json_stream  large JSON documents, item by item
    whatsapp     `_chat.txt`, with whatsapp_time (dates of many countries) and whatsapp_text (placeholders)
    telegram     result.json of Telegram Desktop
    slack        the workspace export, with slack_text (markup)
    discord      JSON of DiscordChatExporter
    jsonlines    our own JSON Lines
"""
