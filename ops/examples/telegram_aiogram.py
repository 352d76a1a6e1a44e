"""A Telegram bot that answers questions from memory, by aiogram."""

import os

from aiogram import Bot, Dispatcher, F
from aiogram.enums import UpdateType
from backscroll_client import AsyncBackscroll
from openai import AsyncOpenAI

memory, model, bot = AsyncBackscroll(buffer="backscroll.sqlite"), AsyncOpenAI(), Dispatcher()


@bot.update.outer_middleware()
async def tee(handler, update, data):
    await memory.tee("telegram", update.model_dump_json(by_alias=True, exclude_none=True))
    return await handler(update, data)


@bot.message(F.text.startswith("/"))
async def command(message, bot):
    chat, user = f"telegram:{message.chat.id}", f"telegram:{message.from_user.id}"
    who = {"direct": message.chat.type == "private", "bot": (await bot.me()).username}
    if told := await memory.command(message.text, chat, user, **who):
        await message.reply(told)


@bot.message(F.text.endswith("?"))
async def answer(message):
    chat, asker = f"telegram:{message.chat.id}", f"telegram:{message.from_user.id}"
    context = await memory.context(chat, message.text, user_id=asker)
    completion = await model.chat.completions.create(model="gpt-4.1-mini", messages=context.messages)
    sent = await message.reply(completion.choices[0].message.content)
    await memory.tee("telegram", sent.model_dump_json(by_alias=True, exclude_none=True))  # its own message


bot.run_polling(Bot(os.environ["BOT_TOKEN"]), allowed_updates=list(UpdateType))
