"""An export of WhatsApp is read alike whatever language the phone speaks."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.platforms.reading import Read, read_path


@dataclass(frozen=True)
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


# The fields of a `Phone` by its language. Phrases and forms are those that other projects' tables and the exports in
# their issues show, none made up here.
TABLE = """
english | WhatsApp Chat with Zoë | 1/31/26, 9:41\u202fPM | [1/31/26, 9:41:07\u202fPM]
  Messages and calls are end-to-end encrypted. Only people in this chat can read them. | Media omitted
  image omitted | This message was deleted | file attached | This message was edited
german | WhatsApp-Chat mit Zoë | 31.01.26, 21:41 | [31.01.26, 21:41:07]
  Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt. Niemand sonst kann sie lesen. | Medien ausgeschlossen
  Bild weggelassen | Diese Nachricht wurde gelöscht. | Datei angehängt | Diese Nachricht wurde bearbeitet.
spanish | Chat de WhatsApp con Zoë | 31/1/26, 21:41 | [31/1/26, 21:41:07]
  Los mensajes y las llamadas están cifrados de extremo a extremo. Nadie más puede leerlos. | Multimedia omitido
  imagen omitida | Se eliminó este mensaje. | archivo adjunto | Se editó este mensaje.
portuguese | Conversa do WhatsApp com Zoë | 31/01/2026 21:41 | [31/01/2026, 21:41:07]
  As mensagens e as chamadas são protegidas com a criptografia de ponta a ponta. | Mídia oculta
  imagem ocultada | Mensagem apagada | arquivo anexado | Mensagem editada
french | Discussion WhatsApp avec Zoë | 31/01/2026 à 21:41 | [31/01/2026 21:41:07]
  Les messages et les appels sont chiffrés de bout en bout. Aucun tiers ne peut les lire. | Médias omis
  image absente | Ce message a été supprimé | fichier joint | Ce message a été modifié
italian | Chat WhatsApp con Zoë | 31/01/26, 21:41 | [31/01/26, 21:41:07]
  I messaggi e le chiamate sono crittografati end-to-end. Nessuno al di fuori può leggerli. | Media omessi
  immagine omessa | Questo messaggio è stato eliminato | file allegato | Questo messaggio è stato modificato
dutch | WhatsApp-chat met Zoë | 31-01-2026 21:41 | [31-01-2026 21:41:07]
  Berichten en gesprekken worden end-to-end versleuteld. Niemand buiten deze chat kan ze lezen. | Media weggelaten
  afbeelding weggelaten | Dit bericht is verwijderd | bestand bijgevoegd | Dit bericht is bewerkt
russian | Чат WhatsApp с Zoë | 31.01.2026, 21:41 | [31.01.2026, 21:41:07]
  Сообщения и звонки защищены сквозным шифрованием. Третьи лица не могут прочитать ваши сообщения. | Без медиафайлов
  изображение отсутствует | Данное сообщение удалено | файл добавлен | Сообщение изменено
ukrainian | Бесіда WhatsApp з Zoë | 31.01.26, 21:41 | [31.01.26, 21:41:07]
  Повідомлення й дзвінки захищено наскрізним шифруванням. | Медіа пропущено
  зображення відсутнє | Це повідомлення було видалено | файл додано
turkish | Zoë ile WhatsApp Sohbeti | 31.01.2026 21:41 | [31.01.2026 21:41:07]
  Mesajlar ve aramalar uçtan uca şifrelidir. | Medya dahil edilmedi
  görüntü dahil edilmedi | Bu mesaj silindi | dosya ekli | Bu mesaj düzenlendi
polish | Czat WhatsApp z Zoë | 31.01.2026, 21:41 | [31.01.2026, 21:41:07]
  Wiadomości i połączenia są w pełni szyfrowane. | pominięto multimedia
  obraz pominięty | Ta wiadomość została usunięta | załączony plik | Ta wiadomość została zmieniona
romanian | Conversație WhatsApp cu Zoë | 31.01.2026, 21:41 | [31.01.2026, 21:41:07]
  Mesajele și apelurile sunt criptate integral. | Conținut media omis
  Imagine omisă | Acest mesaj a fost șters | fișier atașat
swedish | WhatsApp-chatt med Zoë | 2026-01-31 21:41 | [2026-01-31, 21:41:07]
  Meddelanden och samtal är komplett krypterade. | Media har utelämnats
  bild utesluten | Det här meddelandet raderades | bifogad fil
finnish | WhatsApp-keskustelu henkilön Zoë kanssa | 31.1.2026 klo 21.41 | [31.1.2026 klo 21.41.07]
  Viestit ja puhelut salataan täysin. | Media jätetty pois
  videota ei sisällytetä | Tämä viesti poistettiin | liitetiedosto
hungarian | WhatsApp csevegés vele: Zoë | 2026. 01. 31. 21:41 | [2026. 01. 31. 21:41:07]
  Az üzenetek és hívások végpontok közötti titkosítással vannak védve. | Média kihagyva
  Videó kihagyva | Ez az üzenet törlésre került | fájl csatolva
greek | Συνομιλία WhatsApp με Zoë | 31/1/26, 9:41 μ.μ. | [31/1/26, 9:41:07 μ.μ.]
  Τα μηνύματα και οι κλήσεις κρυπτογραφούνται πλήρως. | Εξαίρεση πολυμέσων
  εικόνα παραλείφθηκε | Αυτό το μήνυμα διαγράφηκε | συνημμένο αρχείο
indonesian | Chat WhatsApp dengan Zoë | 31/01/26 21.41 | [31/01/26 21.41.07]
  Pesan dan panggilan terenkripsi secara end-to-end. | Media tidak disertakan
  gambar tidak disertakan | Pesan ini dihapus | file terlampir | Pesan ini diedit
vietnamese | Trò chuyện WhatsApp với Zoë | 31/01/2026, 21:41 | [31/01/2026, 21:41:07]
  Tin nhắn và cuộc gọi được mã hóa đầu cuối. | Bỏ qua tệp phương tiện
  đã bỏ qua hình ảnh | Tin nhắn này đã bị xóa | tệp đính kèm
thai | แชท WhatsApp กับ Zoë | 31/1/2569 21:41 | [31/1/2569 21:41:07]
  ข้อความและการโทรได้รับการเข้ารหัสจากต้นทางถึงปลายทาง | สื่อถูกลบ
  ไม่มีรูปภาพ | ข้อความนี้ถูกลบแล้ว | ไฟล์ที่แนบ
japanese | ZoëとのWhatsAppチャット | 2026/01/31 21:41 | [2026/01/31 21:41:07]
  メッセージと通話はエンドツーエンド暗号化されています。 | メディアは含まれていません
  画像は含まれていません | このメッセージは削除されました。 | 添付ファイル有り
korean | Zoë님과의 WhatsApp 대화 | 2026. 1. 31. 오후 9:41 | [2026. 1. 31. 오후 9:41:07]
  메시지 및 전화는 종단간 암호화되어 안전합니다. | 미디어 파일을 생략한 대화내용
  이미지 생략됨 | 이 메시지는 삭제되었습니다 | 파일 첨부됨
chinese | 与Zoë的 WhatsApp 聊天 | 2026/1/31 21:41 | [2026/1/31 21:41:07]
  消息和通话已进行端到端加密。只有此对话中的成员可以查看。 | 省略多媒体文件
  照片已忽略 | 这条消息已删除。 | 文件附件
chinese of Taiwan | 與Zoë的 WhatsApp 對話 | 2026/1/31 下午9:41 | [2026/1/31 下午9:41:07]
  訊息與通話已受端對端加密保護。 | 忽略多媒體檔
  圖片已略去 | 此訊息已刪除。 | 附件檔案
arabic | دردشة واتساب مع Zoë | ٣١\u200f/١\u200f/٢٠٢٦، ٩:٤١ م | \u200f[٣١\u200f/١\u200f/٢٠٢٦، ٩:٤١:٠٧ م]
  الرسائل والمكالمات مشفرة تمامًا بين الطرفين | تم استبعاد الوسائط
  لم يتم إدراج الصورة | تم حذف هذه الرسالة | الملف مرفق | تم تعديل هذه الرسالة
hebrew | צ'אט WhatsApp עם Zoë | 31.1.2026, 21:41 | [31.1.2026, 21:41:07]
  ההודעות והשיחות מוצפנות מקצה-לקצה. | המדיה לא נכללה
  התמונה הושמטה | הודעה זו נמחקה | קובץ מצורף | הודעה זו נערכה
hindi | Zoë के साथ WhatsApp चैट | 31/01/26, 9:41 pm | [31/01/26, 9:41:07 PM]
  मैसेजेस और कॉल्स एंड-टू-एंड एन्क्रिप्टेड हैं. | मीडिया के बिना
  फ़ोटो हटाई गई | यह मैसेज डिलीट कर दिया गया है | फाइल अटैच कर दी गई है
"""


def phones() -> Iterator[tuple[str, Phone]]:
    for entry in re.split(r"\n(?=\S)", TABLE.strip()):
        language, file, android, iphone, *phrases = re.split(r" \| |\n  ", entry)
        yield language, Phone(file, f"{android} - ", f"{iphone} ", *phrases)


PHONES = dict(phones())
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
        "Zoë vous a ajouté à un groupe de la communauté: Voile",
        "Анна добавила вас в группу в сообществе: Паруса",
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
    ("placeholder", "content"),
    [
        ("<View once voice message omitted>", "[audio]"),
        ("<View once photo omitted>", "[image]"),
        ("<Video note omitted>", "[video]"),
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
