"""A Slack bot that answers questions from memory, by Bolt."""

import os
import re

from backscroll_client import Backscroll
from openai import OpenAI
from slack_bolt import App

memory, model = Backscroll(buffer="backscroll.sqlite"), OpenAI()
token, secret = os.environ["BOT_TOKEN"], os.environ["SLACK_SIGNING_SECRET"]
bot = App(token=token, signing_secret=secret, ignoring_self_events_enabled=False)


@bot.middleware
def tee(body, next):
    if "event" in body:
        memory.tee("slack", body)
    next()


@bot.event("message")
def answer(event, say):
    if event.get("text", "").endswith("?") and not event.get("bot_id"):
        context = memory.context(f"slack:{event['channel']}", event["text"], user_id=f"slack:{event['user']}")
        completion = model.chat.completions.create(model="gpt-4.1-mini", messages=context.messages)
        say(completion.choices[0].message.content)


@bot.command(re.compile("/(missed|remember|mydata|forgetme)"))
def command(ack, body, respond):
    ack()
    chat, user = f"slack:{body['channel_id']}", f"slack:{body['user_id']}"
    text = f"{body['command']} {body.get('text', '')}"
    respond(memory.command(text, chat, user, direct=True))  # Slack shows it to nobody else


bot.start(int(os.environ.get("PORT", "3000")))
