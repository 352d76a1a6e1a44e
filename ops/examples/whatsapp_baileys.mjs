// A WhatsApp bot that answers questions from memory, by Baileys.
import { makeWASocket, useMultiFileAuthState } from "baileys";
import OpenAI from "openai";

const headers = { Authorization: `Bearer ${process.env.BACKSCROLL_API_KEY}`, "Content-Type": "application/json" };
const post = async (path, body) =>
  (await fetch(`${process.env.BACKSCROLL_URL}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();

const model = new OpenAI();
const { state, saveCreds } = await useMultiFileAuthState("auth");
const socket = makeWASocket({ auth: state });
socket.ev.on("creds.update", saveCreds);
socket.ev.process(async (events) => {
  await post("/v1/events/baileys", events).catch(console.error);
  for (const { key, message } of events["messages.upsert"]?.messages ?? []) {
    const text = message?.conversation ?? message?.extendedTextMessage?.text ?? "";
    if (key.fromMe || !text.endsWith("?")) continue;
    const chat = `whatsapp:${(key.remoteJidAlt ?? key.remoteJid).replace("@s.whatsapp.net", "")}`;
    const context = await post("/v1/context", { chat_id: chat, query: text });
    const completion = await model.chat.completions.create({ model: "gpt-4.1-mini", messages: context.messages });
    await socket.sendMessage(key.remoteJid, { text: completion.choices[0].message.content });
  }
});
