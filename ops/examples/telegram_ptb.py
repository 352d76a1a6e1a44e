"""A Telegram bot that answers questions from memory, by python-telegram-bot."""

import os

from backscroll_client import AsyncBackscroll
from openai import AsyncOpenAI
from telegram import Update
from telegram.ext import Application, MessageHandler, TypeHandler, filters

memory, model = AsyncBackscroll(buffer="backscroll.sqlite"), AsyncOpenAI()


async def answer(update, _):
    message, asker = update.message, f"telegram:{update.effective_user.id}"
    context = await memory.context(f"telegram:{message.chat_id}", message.text, user_id=asker)
    completion = await model.chat.completions.create(model="gpt-4.1-mini", messages=context.messages)
    sent = await message.reply_text(completion.choices[0].message.content)
    await memory.tee("telegram", sent.to_dict())  # Telegram does not deliver a bot's own messages


async def command(update, context):
    message, chat = update.message, f"telegram:{update.message.chat_id}"
    who = {"user_id": f"telegram:{update.effective_user.id}", "bot": context.bot.username}
    if told := await memory.command(message.text, chat, direct=message.chat.type == "private", **who):
        await message.reply_text(told)


bot = Application.builder().token(os.environ["BOT_TOKEN"]).build()
bot.add_handler(TypeHandler(Update, lambda update, _: memory.tee("telegram", update.to_dict())), group=-1)
bot.add_handler(MessageHandler(filters.UpdateType.MESSAGE & filters.COMMAND, command))
bot.add_handler(MessageHandler(filters.UpdateType.MESSAGE & filters.Regex(r"\?$"), answer))
bot.run_polling(allowed_updates=Update.ALL_TYPES)
