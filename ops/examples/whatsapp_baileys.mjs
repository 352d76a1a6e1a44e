// A WhatsApp bot that answers questions from memory, by Baileys.
import { makeWASocket, useMultiFileAuthState } from "baileys";
import OpenAI from "openai";

const headers = { Authorization: `Bearer ${process.env.BACKSCROLL_API_KEY}`, "Content-Type": "application/json" };
const call = async (method, path, body) => {
  const response = await fetch(`${process.env.BACKSCROLL_URL}${path}`, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
};
const post = (path, body) => call("POST", path, body);

// what people ask for themselves, and for nobody else: the ids are WhatsApp's
const own = {
  "/missed": async (chat, user) => (await post("/v1/digest", { chat_id: chat, user_id: user, budget_tokens: 800 })).text,
  "/remember": async (chat, user, content) =>
    (await post("/v1/memories", { scope: "user", user_id: user, learned_in: chat, content })).outcome === "kept_out" ? "Memory is off." : "I remember it.",
  "/mydata": async (chat, user) =>
    chat !== user ? "Ask me in our direct chat." : (await call("GET", `/v1/users/${encodeURIComponent(user)}`)).current.map((known) => `- ${known.content}`).join("\n") || "I remember nothing about you.",
  "/forgetme": async (chat, user, sure) =>
    sure !== "yes" ? "This deletes all that you wrote, in every chat, for good. To do it: /forgetme yes" : `Receipt ${(await post("/v1/forget", { kind: "user", sender_id: user })).id}: what you wrote is being deleted.`,
};

const model = new OpenAI();
const { state, saveCreds } = await useMultiFileAuthState("auth");
const socket = makeWASocket({ auth: state });
socket.ev.on("creds.update", saveCreds);
socket.ev.process(async (events) => {
  await post("/v1/events/baileys", events).catch(console.error);
  for (const { key, message } of events["messages.upsert"]?.messages ?? []) {
    const text = message?.conversation ?? message?.extendedTextMessage?.text ?? "";
    if (key.fromMe) continue;
    const id = (jid) => `whatsapp:${jid.replace("@s.whatsapp.net", "")}`, there = key.remoteJidAlt ?? key.remoteJid;
    const chat = id(there), user = id(key.participantAlt ?? key.participant ?? there);
    const [command, ...rest] = text.split(" ");
    if (Object.hasOwn(own, command)) {
      const told = await own[command](chat, user, rest.join(" ")).catch((error) => (console.error(error), "My memory cannot be reached."));
      await socket.sendMessage(key.remoteJid, { text: told });
    }
    if (!text.endsWith("?")) continue;
    const context = await post("/v1/context", { chat_id: chat, query: text, user_id: user });
    const completion = await model.chat.completions.create({ model: "gpt-4.1-mini", messages: context.messages });
    await socket.sendMessage(key.remoteJid, { text: completion.choices[0].message.content });
  }
});
