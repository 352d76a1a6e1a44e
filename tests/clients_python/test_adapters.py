"""The adapters, each driven by the real framework, on a real HTTP API.

A framework takes seconds to import, which whoever collects these stories need not wait for.
"""

import asyncio
import base64
import json
import warnings
from pathlib import Path
from typing import Any

import httpx
import pytest
from backscroll_client import AsyncBackscroll, Backscroll, Unavailable
from sqlalchemy.ext.asyncio import create_async_engine

from tests.clients_python.conftest import BOILER, CHAT
from tests.clients_python.doubles import Api, problem

ANN = "telegram:13"


def test_a_chain_of_langchain_goes_on_where_another_process_left_it(memory: Backscroll) -> None:
    from backscroll_client.langchain import BackscrollChatMessageHistory
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
    from langchain_core.runnables.history import RunnableWithMessageHistory

    # the import has put its own filters first
    warnings.filterwarnings("ignore", ".*RunnableWithMessageHistory.*")

    def chain(*answers: str) -> tuple[RunnableWithMessageHistory, list[list[BaseMessage]]]:
        seen: list[list[BaseMessage]] = []
        prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])
        model = GenericFakeChatModel(messages=iter(AIMessage(answer) for answer in answers))
        watched = prompt | (lambda value: seen.append(value.to_messages()) or value) | model  # type: ignore[func-returns-value]
        return RunnableWithMessageHistory(
            watched,
            lambda session_id: BackscrollChatMessageHistory(memory, session_id, ANN),
            input_messages_key="question",
            history_messages_key="history",
        ), seen

    config: Any = {"configurable": {"session_id": CHAT}}
    first, _ = chain("Noted 📝")
    first.invoke({"question": BOILER}, config)
    second, seen = chain("On 4 May.")
    assert second.invoke({"question": "When does it come?"}, config).content == "On 4 May."
    assert [message.content for message in seen[0]] == [BOILER, "Noted 📝", "When does it come?"]
    assert [message.type for message in seen[0]] == ["human", "ai", "human"]
    # and who said it is known, so that memory is made of it
    assert [m["sender_id"] for m in memory.latest(CHAT)] == [ANN, "langchain:assistant"] * 2


def test_a_history_of_langchain_keeps_calls_of_tools_and_images_whole_and_is_searched(
    memory: Backscroll,
) -> None:
    from backscroll_client.langchain import BackscrollChatMessageHistory, BackscrollRetriever
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    history = BackscrollChatMessageHistory(memory, CHAT, ANN)
    assert history.messages == []
    call = AIMessage("", tool_calls=[{"name": "look", "args": {"at": "锅炉"}, "id": "c1"}])
    image = HumanMessage(
        [{"type": "text", "text": "this"}, {"type": "image_url", "image_url": {"url": "x:"}}]
    )
    said = [HumanMessage("look"), call, ToolMessage("1.4 bar", tool_call_id="c1"), image]
    history.add_messages(said)
    kept = history.messages
    assert [m.content for m in kept] == [m.content for m in said]
    assert isinstance(kept[1], AIMessage)
    assert kept[1].tool_calls == call.tool_calls
    assert isinstance(kept[2], ToolMessage)
    assert kept[2].tool_call_id == "c1"
    history.clear()
    assert history.messages == []
    # and a retriever finds what was said
    memory.add(CHAT, {"sender_id": ANN, "sender_name": "Maren", "content": BOILER})
    memory.add(CHAT, {"sender_id": ANN, "content": "Кто кормил кота?"})
    retriever = BackscrollRetriever(memory=memory, chat_id=CHAT, limit=1)
    (found,) = retriever.invoke("the boiler?")
    assert (found.page_content, found.metadata["speaker"]) == (BOILER, "Maren")
    assert asyncio.run(retriever.ainvoke("кота"))[0].page_content == "Кто кормил кота?"


PNG = base64.b64encode(bytes(range(256)) * 400).decode()
"""A picture of 137 KB."""


def said_in(memory: Backscroll) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in memory.latest(CHAT)]


def test_what_people_and_models_say_in_langchain_is_theirs_however_it_is_sent(memory: Backscroll) -> None:
    from backscroll_client.langchain import BackscrollChatMessageHistory
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        ChatMessage,
        HumanMessage,
        RemoveMessage,
        ToolMessage,
    )

    history = BackscrollChatMessageHistory(memory, CHAT, ANN)
    thought = {"type": "thinking", "thinking": "Hm", "signature": PNG[:600]}
    calls = [{"name": "look", "args": {"at": "ボイラー"}, "id": "toolu_1"}]
    by_responses = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {"type": "text", "text": "Четвёртого мая.", "annotations": []},
    ]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    by_url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    # When a person sends pictures, and models of several providers answer, streamed or with thoughts and calls
    history.add_messages(
        [
            HumanMessage([{"type": "text", "text": "この漏れを見て"}, picture], id="h1"),
            HumanMessage([by_url]),
            HumanMessage([{"type": "image", "base64": PNG, "mime_type": "image/png", "caption": "غروب"}]),
            AIMessageChunk("Das ") + AIMessageChunk("sehe ich."),
            AIMessage([thought, {"type": "text", "text": "I see."}], id="a1"),
            AIMessage(
                [{"type": "text", "text": "Moment."}, {"type": "tool_use", "id": "toolu_1"}], tool_calls=calls
            ),
            ToolMessage([{"type": "text", "text": "1.4 bar"}, picture], tool_call_id="toolu_1"),
            AIMessage(by_responses),
            ChatMessage("Merci", role="user"),
        ]
    )
    # Then it is in words, by whom it was
    words = [said for said in said_in(memory) if said[0] != "tool"]
    assert words == [
        ("user", "この漏れを見て [picture]"),
        ("user", "[picture]"),
        ("user", "[picture] غروب"),
        ("assistant", "Das sehe ich."),
        ("assistant", "I see."),
        ("assistant", "Moment."),
        ("assistant", "Четвёртого мая."),
        ("user", "Merci"),
    ]
    assert PNG[1000:1100] not in json.dumps(memory.latest(CHAT))
    # and the model gets back what it needs, with its thoughts and calls
    kept = history.messages
    assert [message.type for message in kept] == "human human human ai ai ai tool ai human".split()
    assert kept[4].content == [thought, {"type": "text", "text": "I see."}]
    assert [(call["name"], call["args"], call["id"]) for call in kept[5].tool_calls] == [
        ("look", {"at": "ボイラー"}, "toolu_1")
    ]
    assert kept[6].content[1] == {"type": "text", "text": "[picture]"}
    # and the same message is stored once, and can be taken back by its id
    history.add_messages([HumanMessage("この漏れを見て", id="h1"), AIMessage("I see.", id="a1")])
    assert len(history.messages) == len(kept)
    history.add_messages([RemoveMessage("h1"), HumanMessage("Noch da?")])
    assert history.messages[-1].content == "Noch da?"
    assert "h1" not in [message["external_id"] for message in memory.latest(CHAT)]
    # and an edit is what the model is given
    memory.edit(CHAT, "a1", "I see nothing.")
    assert "I see nothing." in [message.content for message in history.messages]


def test_what_people_and_agents_say_in_openai_agents_is_theirs_however_it_is_sent(
    url: str, memory: Backscroll
) -> None:
    from agents.testing import assistant_message
    from backscroll_client.openai_agents import BackscrollSession

    look = [
        {"type": "input_text", "text": "Смотри, течёт"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
    ]
    spoken = [{"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}]
    lease = [{"type": "input_file", "file_id": "file-1", "filename": "قرارداد.pdf"}]
    refused = {"type": "refusal", "refusal": "それはできません"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": PNG[:4000]}
    answer = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [refused],
    }
    drawn = {"type": "image_generation_call", "id": "ig_1", "result": PNG, "status": "completed"}
    fakes = [assistant_message(text).model_dump() | {"id": "__fake_id__"} for text in ("Да", "Да")]

    async def story() -> None:
        async with AsyncBackscroll() as client:
            session = BackscrollSession(client, CHAT, ANN)
            said = [{"role": "user", "content": content} for content in (look, spoken, lease)]
            await session.add_items([*said, reasoning, answer, drawn, *fakes])  # type: ignore[list-item]
            await session.add_items([answer])  # type: ignore[list-item]
            kept = await session.get_items()
            assert kept[0]["content"][1] == {"type": "input_text", "text": "[picture]"}
            assert kept[2] == said[2]
            assert kept[3] == reasoning
            assert kept[4] == answer
            assert kept[5] == {"role": "assistant", "content": "[picture]"}

    asyncio.run(story())
    assert [said for said in said_in(memory) if said[0] != "tool"] == [
        ("user", "Смотри, течёт [picture]"),
        ("user", "[audio]"),
        ("user", "[file] قرارداد.pdf"),
        ("assistant", "それはできません"),
        ("assistant", "[picture]"),
        *[("assistant", "Да")] * 2,
    ]


def test_an_agent_of_openai_remembers_and_keeps_calls_of_tools(url: str) -> None:
    from agents import Agent, RunConfig, Runner, Session, SessionSettings, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call
    from backscroll_client.openai_agents import BackscrollSession

    pressure = function_tool(
        lambda: "1.4 bar", name_override="pressure", description_override="The boiler's."
    )

    async def story() -> None:
        async with AsyncBackscroll() as memory:
            # Given what was said long ago, and a run with a tool
            await memory.add(CHAT, {"sender_id": ANN, "content": BOILER, "sent_at": 1777300000})
            session = BackscrollSession(memory, CHAT, ANN)
            assert isinstance(session, Session)
            model = ScriptedModel(
                [
                    [function_call("pressure", {}, call_id="c1")],
                    [assistant_message("1.4 bar, Maren")],
                    [assistant_message("4 May")],
                ]
            )
            config = RunConfig(call_model_input_filter=session.with_memory, tracing_disabled=True)
            agent = Agent(name="Harbour Bot", instructions="Be brief.", model=model, tools=[pressure])
            result = await Runner.run(agent, "Сколько бар?", session=session, run_config=config)
            assert result.final_output == "1.4 bar, Maren"
            # When another process goes on
            again = BackscrollSession(memory, CHAT, ANN)
            again.session_settings = SessionSettings(limit=4)
            await Runner.run(agent, "When does the new boiler come?", session=again, run_config=config)
            # Then the model has seen the latest items as they were, and what memory knows
            seen = model.last_call
            assert seen is not None
            kinds = [item.get("type") or item["role"] for item in seen.input]
            assert kinds == ["user", "function_call", "function_call_output", "assistant", "user"]
            assert seen.input[2]["output"] == "1.4 bar"
            assert seen.system_instructions is not None
            assert seen.system_instructions.startswith("Be brief.")
            assert BOILER in seen.system_instructions
            # and the newest can be taken back, or all
            assert await session.pop_item() == {"role": "assistant", "content": "4 May"}
            assert await session.get_items(1) == [
                {"role": "user", "content": "When does the new boiler come?"}
            ]
            await session.clear_session()
            assert await session.get_items() == []
            assert await session.pop_item() is None

    asyncio.run(story())


def test_a_memory_of_llama_index_knows_what_its_queue_has_let_go(url: str) -> None:
    from backscroll_client.llama_index import BackscrollMemoryBlock
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory

    async def story() -> None:
        async with AsyncBackscroll() as memory:
            engine = create_async_engine("sqlite+aiosqlite:///:memory:")
            block = BackscrollMemoryBlock(memory=memory, chat_id=CHAT, user_id=ANN)
            talk = Memory.from_defaults(
                session_id="one",
                async_engine=engine,
                token_limit=600,
                token_flush_size=20,
                chat_history_token_ratio=0.1,
                memory_blocks=[block],
                tokenizer_fn=str.split,
            )
            # Given so much talk that the first of it was let go
            await talk.aput_messages([ChatMessage(BOILER, role="user"), ChatMessage("Noted", role="model")])
            for number in range(30):
                await talk.aput(ChatMessage(f"Кто кормил кота? {number}", role="user"))
            await talk.aput(ChatMessage("When does the new boiler come?", role="user"))
            # Then what is asked for is known nevertheless
            messages = await talk.aget()
            assert messages[0].role == "system"
            assert BOILER in (messages[0].content or "")
            assert BOILER not in [message.content for message in messages[1:]]
            # and a smaller share of it, or nothing, where there is less room
            content = await block.aget([ChatMessage("When does the new boiler come?", role="user")])
            less = await block.atruncate(content, 900)
            assert less is not None
            assert len(less) <= len(content)
            assert await block.atruncate(content, 990) is None
            await engine.dispose()

    asyncio.run(story())


def test_a_history_is_not_cleared_for_ever_where_deletions_wait(tmp_path: Path) -> None:
    from backscroll_client.langchain import BackscrollChatMessageHistory
    from backscroll_client.openai_agents import BackscrollSession

    # Given an API that answers questions, and puts off deletions
    api = Api()
    api.ill[CHAT] = lambda request, api: problem(503)
    api.ill[f"/v1/chats/{CHAT}/messages"] = lambda request, api: httpx.Response(
        200, json={"messages": [{"external_id": "1"}, {"external_id": "2"}]}
    )
    with api.client(tmp_path / "first") as memory:
        with pytest.raises(Unavailable, match="clear it again"):
            BackscrollChatMessageHistory(memory, CHAT, ANN).clear()
        assert memory.waiting == 1

    async def story() -> None:
        async with api.async_client(tmp_path / "second") as memory:
            with pytest.raises(Unavailable, match="clear it again"):
                await BackscrollSession(memory, CHAT, ANN).clear_session()
            assert memory.waiting == 1

    asyncio.run(story())
