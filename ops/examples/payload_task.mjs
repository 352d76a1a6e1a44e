// Hands a message over as a Celery task, without Celery: one JSON text pushed into Backscroll's Redis.
// With --print it prints the text, for any other client of Redis: LPUSH backscroll.accept TEXT.
import { randomUUID } from "node:crypto";
import net from "node:net";
import tls from "node:tls";

const payload = {
  v: 1,
  chat: "telegram:-100420",
  messages: [
    { external_id: "99003", sender_id: "telegram:13", content: "Der Klempner kommt um vier. 🔧", sent_at: "2026-04-27T18:00:00+01:00" },
  ],
};
const task = JSON.stringify({
  body: Buffer.from(JSON.stringify([[], payload, {}])).toString("base64"),
  "content-type": "application/json",
  "content-encoding": "utf-8",
  headers: { lang: "js", task: "backscroll.ingest", id: randomUUID(), argsrepr: "()", kwargsrepr: "{…}" },
  properties: { body_encoding: "base64", delivery_tag: randomUUID(), delivery_info: { exchange: "", routing_key: "backscroll.accept" } },
});

if (process.argv.includes("--print")) {
  console.log(task);
} else {
  const url = new URL(process.env.BACKSCROLL_REDIS_URL);
  const login = [url.username, url.password].filter(Boolean).map(decodeURIComponent);
  const commands = [["SELECT", url.pathname.slice(1) || "0"], ["LPUSH", "backscroll.accept", task], ["QUIT"]];
  if (login.length) commands.unshift(["AUTH", ...login]);
  const socket = (url.protocol === "rediss:" ? tls : net).connect({ host: url.hostname, port: url.port || 6379 });
  for (const words of commands)
    socket.write(`*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`);
  let answers = "";
  for await (const part of socket) answers += part;
  if (/^-/m.test(answers)) throw new Error(answers);
}
