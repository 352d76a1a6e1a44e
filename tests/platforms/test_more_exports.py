"""What people kept elsewhere comes in: two versions of each export, in their own scripts, and longer ones again."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ops.source import open_source
from pipeline.platforms.records import ImportOptions
from schemas.errors import InvalidInput
from tests.platforms.reading import Read, read_path


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    return path


def told(read: Read) -> list[tuple[str, str, str]]:
    assert read.broken == []
    return [(f"{m.sent_at:%m-%d %H:%M}", m.sender_name, m.content) for m in read.messages]


LINE = {
    "[LINE] Chat history with Ágnes.txt": (
        "[LINE] Chat history with Ágnes\nSaved on: 2026/03/04 10:11\n\n"
        '2026/03/03(Tue)\n10:11\tÁgnes\t"Hajó?\nMikor?"\n10:12\tBo\t[Sticker]\n'
    ),
    "ja.txt": (
        "[LINE] Ágnesとのトーク履歴\r\n保存日時：2026/03/04 10:11\r\n\r\n"
        "2026/03/03(火)\r\n午前10:11\tÁgnes\tHajó?\r\nMikor?\r\n午前10:12\tBo\t[スタンプ]\r\n"
    ),
    "zh.txt": (
        "[LINE] 與Ágnes的聊天記錄\n儲存日期：2026/03/04 10:11\n\n"
        "2026/03/03（二）\n上午10:11\tÁgnes\tHajó?\nMikor?\n上午10:12\tBo\t[貼圖]\n"
    ),
    "th.txt": (
        "[LINE] ประวัติการสนทนากับ Ágnes\nบันทึกวันที่: 2569/03/04 10:11\n\n"
        "อ. 03/03/2569\n10:11\tÁgnes\tHajó?\nMikor?\n10:12\tBo\t[สติกเกอร์]\n"
    ),
    "us.txt": (
        "[LINE] Chat history with Ágnes\nSaved on: 3/4/2026, 10:11\n\n"
        "Tue, 3/3/2026\n10:11 AM\tÁgnes\tHajó?\nMikor?\n10:12 AM\tBo\t[Sticker]\n"
    ),
}


@pytest.mark.parametrize("name", LINE)
def test_a_line_history_reads_the_same_in_every_language_of_the_app(tmp_path: Path, name: str) -> None:
    read = read_path(write(tmp_path / name, LINE[name]), time_zone="Asia/Tokyo")
    assert told(read) == [("03-03 01:11", "Ágnes", "Hajó?\nMikor?"), ("03-03 01:12", "Bo", "[sticker]")]
    assert read.chats[0].chat_id == "line:Ágnes"
    longer = LINE[name] + "10:13\tBo\tやあ\n10:14\t\tBo left the group.\n"
    again = read_path(write(tmp_path / name, longer), time_zone="Asia/Tokyo")
    assert again.ids[:2] == read.ids
    assert (len(again.messages), [skipped.reason for skipped in again.skipped]) == (3, ["system line"])


def test_weekdays_tell_which_number_of_a_line_date_is_the_month(tmp_path: Path) -> None:
    history = "[LINE] Chat history in Κήπος\nSaved on: 1/2/2026, 10:11\n\n{}\n10:11\tΆννα\tΓεια\n"
    for day, at in (("Wed, 4/3/2026", "03-04"), ("Fri, 4/3/2026", "04-03")):
        read = read_path(write(tmp_path / "a.txt", history.format(day)), time_zone="UTC")
        assert (f"{read.messages[0].sent_at:%m-%d}", read.chats[0].kind) == (at, "group")
    read = read_path(write(tmp_path / "a.txt", history.format("4/3/2026")))
    assert (read.ambiguous[0].examples[0][0], read.messages) == ("4/3/2026", [])


KAKAO = {
    "android.txt": (
        "텃밭 3 카카오톡 대화\n저장한 날짜 : 2026년 3월 4일 오전 10:11\n\n2026년 3월 3일 오후 1:11\n"
        "2026년 3월 3일 오후 1:11, 지민 : 울타리를\n칠할까요?\n2026년 3월 3일 오후 1:12, Bo : 사진\n"
        "2026년 3월 3일 오후 1:13, Bo님이 나갔습니다.\n"
    ),
    "ios.txt": (
        "텃밭 님과 카카오톡 대화\n저장한 날짜 : 2026. 3. 4. 오전 10:11\n\n2026년 3월 3일 화요일\n"
        "2026. 3. 3. 오후 1:11, 지민 : 울타리를\n칠할까요?\n2026. 3. 3. 오후 1:12, Bo : 사진\n"
        "2026. 3. 3. 오후 1:13: Bo님이 나갔습니다.\n"
    ),
    "pc.txt": (
        "텃밭 님과 카카오톡 대화\n저장한 날짜 : 2026-03-04 10:11:12\n\n"
        "--------------- 2026년 3월 3일 화요일 ---------------\n"
        "[지민] [오후 1:11] 울타리를\n칠할까요?\n[Bo] [오후 1:12] 사진\nBo님이 나갔습니다.\n"
    ),
    "en.txt": (
        "KakaoTalk Chats with 텃밭\nDate Saved : March 4, 2026 at 10:11 AM\n\n"
        "--------------- Tuesday, March 3, 2026 ---------------\n"
        "[지민] [1:11 PM] 울타리를\n칠할까요?\n[Bo] [1:12 PM] Photo\nBo left this chatroom.\n"
    ),
    "KakaoTalk_Chat_텃밭_2026-03-04-10-11-12.csv": (
        'Date,User,Message\n2026-03-03 13:11:00,"지민","울타리를\n칠할까요?"\n2026-03-03 13:12:00,"Bo","사진"\n'
        '2026-03-03 13:13:00,"Bo","Bo님이 나갔습니다."\n'
    ),
}


@pytest.mark.parametrize("name", KAKAO)
def test_kakaotalk_is_read_from_phones_pcs_and_macs(tmp_path: Path, name: str) -> None:
    read = read_path(write(tmp_path / name, KAKAO[name]), time_zone="Asia/Seoul")
    assert told(read) == [("03-03 04:11", "지민", "울타리를\n칠할까요?"), ("03-03 04:12", "Bo", "[image]")]
    assert read.chats[0].chat_id == "kakaotalk:텃밭"
    assert [skipped.reason for skipped in read.skipped] == ["system line"]
    assert read_path(tmp_path / name, time_zone="Asia/Seoul").ids == read.ids


def chatgpt(*said: tuple[str, str, Any], title: str = "Забор", **more: Any) -> dict[str, Any]:
    mapping: dict[str, Any] = {"r": {"id": "r", "message": None, "parent": None, "children": ["m0"]}}
    for number, (parent, role, content) in enumerate(said):
        if not isinstance(content, dict):
            content = {"content_type": "text", "parts": [content]}
        message = {
            "id": f"m{number}",
            "author": {"role": role},
            "create_time": 1772532000.5 + number,
            "content": content,
        }
        mapping[f"m{number}"] = {"id": f"m{number}", "message": message, "parent": parent, "children": []}
        mapping[parent]["children"].append(f"m{number}")
    return {"title": title, "create_time": 1772532000.5, "mapping": mapping, "conversation_id": "c1", **more}


def test_of_a_chatgpt_conversation_the_branch_is_read_that_was_shown_last(tmp_path: Path) -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f"}
    said = [
        ("r", "system", ""),
        ("m0", "user", {"content_type": "multimodal_text", "parts": [picture, "Какая краска?"]}),
        ("m1", "assistant", {"content_type": "thoughts", "thoughts": [{"content": "?"}]}),
        ("m2", "assistant", "Масляная."),
        ("m2", "assistant", "Акриловая."),
        ("m4", "user", "谢谢"),
    ]
    parts = {
        "conversations-000.json": [chatgpt(*said, current_node="m5")],
        "message_feedback.json": [{"id": "f"}],
    }
    parts["conversations-001.json"] = [chatgpt(("r", "user", "नमस्ते"), conversation_id="c2")]
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, json.dumps(content))
    read = read_path(tmp_path / "export.zip")
    assert [(m.role, m.content) for m in read.messages] == [
        ("user", "[image] Какая краска?"),
        ("assistant", "Акриловая."),
        ("user", "谢谢"),
        ("user", "नमस्ते"),
    ]
    assert [chat.chat_id for chat in read.chats] == ["chatgpt:c1", "chatgpt:c2"]
    assert [item.reason for item in read.skipped].count("message of another branch") == 1
    assert any("message_feedback.json" in notice for notice in read.notices)
    # and of an older export, which does not say which was last
    old = read_path(write(tmp_path / "conversations.json", [chatgpt(*said)]))
    assert old.contents == read.contents[:3]
    assert old.ids == read.ids[:3]


def test_claudes_chats_are_read_and_its_projects_and_memories_named(tmp_path: Path) -> None:
    def message(key: str, sender: str, text: str, **more: Any) -> dict[str, Any]:
        return {"uuid": key, "sender": sender, "text": text, "created_at": "2026-03-03T10:11:12.5Z", **more}

    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "زيتي."}]
    said = [
        message(
            "m1",
            "human",
            "أي طلاء؟",
            attachments=[{"file_name": "سياج.pdf"}, {"extracted_content": "٣ أمتار"}],
        ),
        message("m2", "assistant", "This block is not supported", content=blocks),
    ]
    chat = {"uuid": "c1", "name": "سياج", "account": {"uuid": "a1"}, "chat_messages": said}
    old = read_path(write(tmp_path / "old/conversations.json", [chat]))
    assert [(m.sender_id, m.role, m.content) for m in old.messages] == [
        ("claude:a1", "user", "[document سياج.pdf] أي طلاء؟\n٣ أمتار"),
        ("claude:assistant", "assistant", "زيتي."),
    ]
    # a newer one tells which message answers which
    said[1]["parent_message_uuid"] = "m1"
    other = message("m3", "assistant", "مائي.", parent_message_uuid="m1")
    write(tmp_path / "new/conversations.json", [chat | {"chat_messages": [said[0], other, said[1]]}])
    write(tmp_path / "new/projects.json", [{"uuid": "p", "name": "x", "docs": []}])
    write(tmp_path / "new/memories.json", [{"conversations_memory": "x", "account_uuid": "a1"}])
    new = read_path(tmp_path / "new")
    assert new.ids == old.ids
    assert [item.reason for item in new.skipped] == ["message of another branch"]
    assert [notice.split()[0] for notice in new.notices] == ["memories.json", "projects.json"]
    with pytest.raises(InvalidInput, match="Claude's memories"):
        open_source(tmp_path / "new/memories.json", ImportOptions())


def event(key: str, sender: str, body: str, **more: Any) -> dict[str, Any]:
    content = {"msgtype": "m.text", "body": body} | more.pop("content", {})
    base = {"type": "m.room.message", "room_id": "!r:host", "event_id": key, "sender": sender}
    return base | {"origin_server_ts": 1772532000000, "content": content} | more


def test_an_element_room_is_read_with_names_and_its_own_peoples_edits(tmp_path: Path) -> None:
    def edit(of: str, by: str, text: str) -> dict[str, Any]:
        relation = {"m.relates_to": {"rel_type": "m.replace", "event_id": of}}
        return event(
            f"$e{by}",
            by,
            f"* {text}",
            content={"m.new_content": {"msgtype": "m.text", "body": text}} | relation,
        )

    joined = event("$j", "@ana:host", "", type="m.room.member", state_key="@ana:host")
    joined["content"] = {"membership": "join", "displayname": "Άννα Ρέις"}
    events = [joined, event("$a", "@ana:host", "Πράσινο?"), event("$b", "@bo:host", "зелёный")]
    document = {
        "room_name": "Κήπος",
        "export_date": "3/4/2026",
        "exported_by": "@ana:host",
        "messages": events,
    }
    old = read_path(write(tmp_path / "export.json", document))
    assert told(old) == [("03-03 10:00", "Άννα Ρέις", "Πράσινο?"), ("03-03 10:00", "bo", "зелёный")]
    assert (old.chats[0].chat_id, old.chats[0].title) == ("matrix:!r:host", "Κήπος")
    events += [edit("$a", "@mallory:host", "0000"), edit("$a", "@ana:host", "Μπλε?")]
    new = read_path(write(tmp_path / "export.json", document))
    assert (new.contents, new.ids) == (["Μπλε?", "зелёный"], old.ids)


@pytest.mark.parametrize(
    "written",
    [
        "Tuesday, March 3, 2026 at 10:11:12\u202fPM UTC",
        "Dienstag, 3. März 2026 um 22:11:12 UTC",
        "martes, 3 de marzo de 2026, 22:11:12 UTC",
        "вторник, 3 марта 2026 г. в 22:11:12 UTC",
        "2026年3月3日火曜日 22:11:12 UTC",
        "2026년 3월 3일 화요일 오후 10:11:12 UTC",
        "2026년 3월 3일 화요일 오후 10시 11분 12초 UTC",
    ],
)
def test_google_chats_times_are_read_in_the_accounts_language(tmp_path: Path, written: str) -> None:
    person = {"name": "Ana Reis", "email": "ana@example.org", "user_type": "Human"}
    said = {
        "creator": person,
        "created_date": written,
        "text": "¿Verde?",
        "message_id": "AAA/t1/t1",
        "topic_id": "t1",
    }
    bot = {"creator": {"name": "Uhr", "user_type": "Bot"}, "message_id": "AAA/t1/m2", "text": "はい"}
    groups = tmp_path / "Takeout/Google Chat/Groups"
    write(groups / "DM AAA/group_info.json", {"members": [person, {"name": "Bo"}]})
    write(groups / "DM AAA/messages.json", {"messages": [said, said | bot]})
    other = said | {"message_id": "BBB/t/t", "topic_id": "t", "message_state": "DELETED"}
    write(groups / "Space BBB/messages.json", {"messages": [other]})
    for start in (tmp_path, groups.parent):
        read = read_path(start)
        assert told(read) == [("03-03 22:11", "Ana Reis", "¿Verde?"), ("03-03 22:11", "Uhr", "はい")]
        assert [(m.role, m.reply_to) for m in read.messages] == [("user", None), ("assistant", "AAA/t1/t1")]
        assert [(chat.chat_id, chat.kind, chat.title) for chat in read.chats if chat.title] == [
            ("googlechat:AAA", "direct", "Ana Reis, Bo")
        ]


def test_a_mattermost_export_keeps_threads_bots_and_ids_when_a_text_is_edited(tmp_path: Path) -> None:
    def lines(text: str, *more: dict[str, Any]) -> str:
        post = {"team": "t", "channel": "сад", "user": "ana", "message": text, "create_at": 1772532000000}
        post["replies"] = [{"user": "bo", "message": "да", "create_at": 1772532060000}]
        about = [
            {"type": "version", "version": 1},
            {"type": "channel", "channel": {"team": "t", "name": "сад", "display_name": "Сад", "type": "O"}},
            {"type": "user", "user": {"username": "ana", "first_name": "Ана", "last_name": "Реис"}},
            {"type": "bot", "bot": {"username": "uhr", "owner": "ana"}},
        ]
        direct = {
            "channel_members": ["bo", "ana"],
            "user": "uhr",
            "message": "🕙",
            "create_at": 1772532120000,
        }
        return "\n".join(
            map(
                json.dumps,
                [
                    *about,
                    {"type": "post", "post": post},
                    *more,
                    {"type": "direct_post", "direct_post": direct},
                ],
            )
        )

    read = read_path(write(tmp_path / "bulk.jsonl", lines("Красим?")))
    assert told(read) == [
        ("03-03 10:00", "Ана Реис", "Красим?"),
        ("03-03 10:01", "bo", "да"),
        ("03-03 10:02", "uhr", "🕙"),
    ]
    assert [(m.role, m.reply_to) for m in read.messages] == [
        ("user", None),
        ("user", read.ids[0]),
        ("assistant", None),
    ]
    assert [(c.chat_id, c.kind, c.title) for c in read.chats] == [
        ("mattermost:t:сад", "group", "#Сад"),
        ("mattermost:ana,bo", "direct", "Ана Реис, bo"),
    ]
    joined = {
        "team": "t",
        "channel": "сад",
        "user": "bo",
        "type": "system_join_channel",
        "message": "x",
        "create_at": 1,
    }
    again = read_path(write(tmp_path / "bulk.json", lines("Красим!", {"type": "post", "post": joined})))
    assert (again.ids, [item.reason for item in again.skipped]) == (read.ids, ["service message"])


def test_rocket_chat_is_read_from_its_api_a_dump_and_a_rooms_export(tmp_path: Path) -> None:
    def message(key: str, text: str, at: Any, **more: Any) -> dict[str, Any]:
        person = {"_id": "u1", "username": "ana", "name": "Аня"}
        return {"_id": key, "rid": "GENERAL", "msg": text, "ts": at, "u": person} | more

    at = {"api": "2026-03-03T10:00:00.000Z", "dump": {"$date": {"$numberLong": "1772532000000"}}}
    for form in at:
        said = [
            message("a", "हरा?", at[form]),
            message("b", "[ ](https://chat.example/general?msg=a) हाँ", at[form], editedAt=at[form]),
            message("c", "", at[form], t="uj"),
            message("d", "⏰", at[form], bot={"i": "x"}, tmid="a"),
        ]
        text = json.dumps({"messages": said}) if form == "api" else "\n".join(map(json.dumps, said))
        read = read_path(write(tmp_path / f"{form}.json", text))
        assert told(read) == [("03-03 10:00", "Аня", text) for text in ("हरा?", "हाँ", "⏰")]
        assert [(m.role, m.reply_to) for m in read.messages] == [
            ("user", None),
            ("user", "a"),
            ("assistant", "a"),
        ]
        assert [item.reason for item in read.skipped] == ["service message"]
    plain = [{"msg": "हरा?", "username": "ana", "ts": at["api"]}]
    room = write(tmp_path / "room.json", plain)
    assert "--chat" in read_path(room).broken[0].reason
    assert read_path(room, chat_id="बाग़").chats[0].chat_id == "rocketchat:बाग़"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", "[3.3.2026, 10:11] Άννα: Πράσινο;\n[3.3.2026, 10:12] Me: Nai.\n", "Threema"),
        (
            "a.txt",
            "[ 3 March 2026 ] [ 10:11:12 AM ] Ana: hi\n[ 3 March 2026 ] [ 10:12:12 AM ] Bo: hi\n",
            "Viber",
        ),
        ("#garden.log", "[10:11:12] <@ana> green?\n[10:11:20] <bo> да\n10:12 -!- kim has quit\n", "IRC"),
        ("a.txt", "Mar 03, 2026 10:11:12 AM (Read by you after 1 minute)\nAna\ngrün\n\n", "iMessage"),
        ("a.txt", "2026-03-03 10:11:12 李雷\n绿色?\n2026-03-03 10:12:12 韩梅\n好\n", "WeChat"),
        (
            "chat_history.json",
            {"ana": [{"From": "ana", "Media Type": "TEXT", "Created": "x", "Content": "hi"}]},
            "Snapchat",
        ),
        (
            "messages.json",
            {
                "userId": "8:a",
                "conversations": [
                    {"id": "8:b", "MessageList": [{"messagetype": "RichText", "content": "hi"}]}
                ],
            },
            "Skype",
        ),
        ("a.json", {"value": [{"createdDateTime": "x", "body": {"content": "hi"}, "from": {}}]}, "Teams"),
        ("messages-000001.json", {"zerver_message": [{"id": 1, "content": "hi"}]}, "Zulip"),
        ("log.json", {"id": "chatcmpl-1", "messages": [{"role": "user", "content": "hi"}]}, "language model"),
        ("log.json", {"id": 7, "messages": [{"who": "李", "text": "好"}]}, "without the ids"),
        ("log.json", [{"who": "李", "said": "好"}], "said, who"),
    ],
)
def test_what_is_not_read_is_named_with_the_way_out(
    tmp_path: Path, name: str, content: Any, said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_source(write(tmp_path / name, content), ImportOptions())
    assert said in str(refused.value)
    assert "JSON Lines" in str(refused.value)
