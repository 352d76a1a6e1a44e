import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { test } from "node:test";
import { baileys, bolt, discord, grammy } from "@backscroll/client/bots";
import bolts from "@slack/bolt";
import { makeEventBuffer, proto } from "baileys";
import { Client, GatewayIntentBits } from "discord.js";
import { Bot } from "grammy";
import { WebSocketServer } from "ws";
import { BOILER, by, client, hanging, QUESTION, said, until } from "./doubles.mjs";

/** Serves JSON; `answer` gets a path and a body. */
async function serving(answer) {
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts).toString();
    const value = await answer(request.url, request.headers["content-type"]?.includes("json") ? JSON.parse(body || "{}") : Object.fromEntries(new URLSearchParams(body)));
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(value));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}`, close: () => (server.closeAllConnections(), server.close()) };
}

const both = async (memory, chat) => (await memory.latest(chat)).map(({ role, content }) => `${role}: ${content}`);

test("grammY: what people say and correct, and what the bot says", async () => {
  const me = { id: 99, is_bot: true, first_name: "Harbour Bot", username: "harbour_bot" };
  const chat = { id: -10081, type: "supergroup", title: "Harbour House" };
  const from = { id: 13, is_bot: false, first_name: "Maren" };
  let n = 100;
  const telegram = await serving((path, { text }) => ({ ok: true, result: path.endsWith("sendMessage") ? { message_id: n++, date: 1777300100 + n, chat, from: me, text } : true }));
  const start = (memory) => {
    const bot = new Bot("99:token", { botInfo: me, client: { apiRoot: telegram.url } });
    grammy(memory, bot);
    bot.on("message", (ctx) => ctx.reply(`Notiert: ${ctx.message.text}`));
    return bot;
  };
  const memory = client();
  const update = (id, kind, text) => ({ update_id: id, [kind]: { message_id: 1, date: 1777300000, chat, from, text, ...(kind === "edited_message" ? { edit_date: 1777300060 } : {}) } });
  await start(memory).handleUpdate(update(1, "message", "Der Kessel kommt am 3. Mai."));
  await start(memory).handleUpdate(update(2, "edited_message", BOILER));
  await until(async () => (await both(memory, "telegram:-10081")).join() === `user: ${BOILER},assistant: Notiert: Der Kessel kommt am 3. Mai.`, "both are there");
  const began = Date.now();
  await start(client({ fetch: hanging })).handleUpdate(update(3, "message", "schnell"));
  assert.ok(Date.now() - began < 1000);
  telegram.close();
});

test("discord.js: what the gateway tells, the bot's own words too", async () => {
  const [user, bot] = [{ id: "13", username: "maren" }, { id: "99", username: "harbour", bot: true }];
  const message = (id, author, content, more = {}) => ({ id, channel_id: "820", guild_id: "42", author: { discriminator: "0", ...author }, content, timestamp: `2026-04-27T18:00:0${id}+00:00`, type: 0, attachments: [], embeds: [], mentions: [], ...more });
  const rest = await serving(() => ({ url: rest.url.replace("http", "ws"), shards: 1, session_start_limit: { total: 9, remaining: 9, reset_after: 0, max_concurrency: 1 } }));
  const sockets = new WebSocketServer({ server: rest.server });
  sockets.on("connection", (socket) => {
    const send = (op, t, d) => socket.send(JSON.stringify({ op, t, d, s: t ? 1 : null }));
    send(10, null, { heartbeat_interval: 40000 });
    socket.on("message", (data) => {
      if (JSON.parse(data).op !== 2) return;
      send(0, "READY", { v: 10, user: bot, guilds: [], session_id: "s", resume_gateway_url: "ws://127.0.0.1", application: { id: "99", flags: 0 } });
      send(0, "MESSAGE_CREATE", message("1", user, "Der Kessel kommt am 3. Mai."));
      send(0, "MESSAGE_UPDATE", message("1", user, BOILER, { edited_timestamp: "2026-04-27T18:01:00+00:00" }));
      send(0, "MESSAGE_CREATE", message("2", user, "ошибка"));
      send(0, "MESSAGE_DELETE", { id: "2", channel_id: "820", guild_id: "42" });
      send(0, "TYPING_START", { channel_id: "820", user_id: "13", timestamp: 1 });
      send(0, "MESSAGE_CREATE", message("3", bot, "Am 4. Mai"));
    });
  });
  const memory = client();
  const { Guilds, GuildMessages, MessageContent } = GatewayIntentBits;
  const connected = new Client({ intents: [Guilds, GuildMessages, MessageContent], rest: { api: rest.url } });
  discord(memory, connected);
  await connected.login("token");
  await until(async () => (await both(memory, "discord:820")).join() === `user: ${BOILER},assistant: Am 4. Mai`, "all is there");
  assert.deepEqual(memory.log.lines, []);
  await connected.destroy();
  sockets.close();
  rest.close();
});

test("Bolt: what Slack sends and signed, also the app's own words, and Slack is answered at once", async () => {
  const slack = await serving(() => ({ ok: true, user_id: "U99", bot_id: "B99", user: "bot", team_id: "T1", url: "https://x" }));
  const start = async (memory) => {
    const receiver = new bolts.HTTPReceiver({ signingSecret: "secret", port: 0 });
    const app = new bolts.App({ token: "xoxb-1", receiver, clientOptions: { slackApiUrl: `${slack.url}/api/` }, logLevel: "error" });
    const heard = [];
    bolt(memory, app);
    app.message(async ({ message }) => void heard.push(message.text));
    const server = await app.start(0);
    const post = async (event, more = {}) => {
      const body = JSON.stringify({ type: "event_callback", team_id: "T1", api_app_id: "A1", event_id: `Ev${event.ts}`, event: { type: "message", channel: "C83", user: "U13", event_ts: event.ts, channel_type: "channel", ...event }, ...more });
      const at = String(Math.floor(Date.now() / 1000));
      const signature = `v0=${createHmac("sha256", more.secret ?? "secret").update(`v0:${at}:${body}`).digest("hex")}`;
      const headers = { "Content-Type": "application/json", "X-Slack-Request-Timestamp": at, "X-Slack-Signature": signature };
      return (await fetch(`http://127.0.0.1:${server.address().port}/slack/events`, { method: "POST", headers, body })).status;
    };
    return { app, heard, post };
  };
  const memory = client();
  const { app, heard, post } = await start(memory);
  assert.equal(await post({ text: BOILER, ts: "1777300001.000100" }), 200);
  assert.equal(await post({ text: "王芳说的", ts: "1777300002.000100" }), 200);
  assert.equal(await post({ text: "Am 4. Mai", ts: "1777300003.000100", user: "U99", bot_id: "B99" }), 200);
  assert.equal(await post({ text: "forged", ts: "1777300004.000100" }, { secret: "other" }), 401);
  await until(async () => (await both(memory, "slack:C83")).join() === `user: ${BOILER},user: 王芳说的,assistant: Am 4. Mai`, "all is there");
  // the app itself answers nobody twice: its own words are still kept from it
  assert.deepEqual(heard, [BOILER, "王芳说的"]);
  await app.stop();
  const slow = await start(client({ fetch: hanging }));
  const began = Date.now();
  assert.equal(await slow.post({ text: QUESTION, ts: "1777300005.000100" }), 200);
  assert.ok(Date.now() - began < 1000);
  await slow.app.stop();
  slack.close();
});

test("Baileys: messages, those of the bot's own account, and deletions, as the library itself emits them", async () => {
  const quiet = { level: "silent", child: () => quiet, trace() {}, debug() {}, info() {}, warn() {}, error() {} };
  const sent = [];
  const memory = client({ fetch: by((_, { body }) => void sent.push(body)) });
  const socket = { ev: makeEventBuffer(quiet) };
  baileys(memory, socket);
  const jid = "12036384@g.us";
  const message = (id, text, more = {}) => proto.WebMessageInfo.fromObject({ key: { remoteJid: jid, id, participant: "491701234567@s.whatsapp.net", fromMe: false, ...more }, messageTimestamp: 1777300000 + id.charCodeAt(1), pushName: "Maren", message: { conversation: text } });
  socket.ev.emit("messages.upsert", { type: "notify", messages: [message("A1", BOILER), message("A2", "שגיאה")] });
  socket.ev.emit("messages.upsert", { type: "append", messages: [message("A3", "Am 4. Mai", { fromMe: true, participant: undefined })] });
  await until(async () => (await said(memory, "whatsapp:12036384@g.us")).length === 3, "all came");
  const revoked = message("A4", "");
  revoked.message = { protocolMessage: { type: proto.Message.ProtocolMessage.Type.REVOKE, key: { remoteJid: jid, id: "A2", participant: "491701234567@s.whatsapp.net" } } };
  socket.ev.emit("messages.upsert", { type: "notify", messages: [revoked] });
  socket.ev.emit("creds.update", { noiseKey: { private: "the account's own" } });
  await until(async () => (await both(memory, "whatsapp:12036384@g.us")).join() === `user: ${BOILER},assistant: Am 4. Mai`, "it is deleted");
  assert.ok(!sent.join().includes("noiseKey"));
});

test("a tee throws nothing, whatever it is given", async () => {
  const circular = {};
  circular.self = circular;
  const memory = client({ patience: 0 });
  for (const payload of [circular, undefined, 1n, "{", { nothing: "of it" }]) assert.equal(await memory.tee("telegram", payload), false);
  assert.equal(await memory.tee("..", {}), false);
  assert.equal(memory.log.lines.length, 6);
});
