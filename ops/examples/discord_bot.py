"""A Discord bot that answers questions from memory, by discord.py."""

import os

import discord
from backscroll_client import AsyncBackscroll
from openai import AsyncOpenAI

memory, model = AsyncBackscroll(buffer="backscroll.sqlite"), AsyncOpenAI()
intents = discord.Intents(guilds=True, messages=True, message_content=True)
bot = discord.Client(intents=intents, enable_debug_events=True)


@bot.event
async def on_socket_raw_receive(dispatch):
    if '"t":"MESSAGE_' in dispatch:
        await memory.tee("discord", dispatch)


@bot.event
async def on_message(message):
    if message.author.bot:
        return
    chat, asker = f"discord:{message.channel.id}", f"discord:{message.author.id}"
    direct = message.guild is None
    if told := await memory.command(message.content, chat, asker, direct=direct):  # !missed, !mydata …
        await message.reply(told)
    elif message.content.endswith("?"):
        context = await memory.context(chat, message.content, user_id=asker)
        completion = await model.chat.completions.create(model="gpt-4.1-mini", messages=context.messages)
        await message.reply(completion.choices[0].message.content)


bot.run(os.environ["BOT_TOKEN"])
