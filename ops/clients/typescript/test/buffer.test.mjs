import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs, { appendFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { BufferUnusable, KeyRefused } from "@backscroll/client";
import { by, client, folder, said, until } from "./doubles.mjs";

const person = { sender_id: "telegram:13" };
const away = by(() => Promise.reject(new TypeError("fetch failed")));

test("nothing is lost, doubled or out of order, however the API is ill", async () => {
  const ways = [
    () => Promise.reject(new TypeError("fetch failed")),
    () => new Response("<p>Log in</p>", { status: 200 }),
    () => new Response("", { status: 502 }),
    // it comes to pass, and its answer is lost
    async (url, init) => (await fetch(url, init), Promise.reject(new TypeError("terminated"))),
  ];
  let n = 0;
  const memory = client({ buffer: join(folder(), "bot.jsonl"), fetch: by((url, init) => (n++ % 3 ? undefined : ways[(n / 3) & 3](url, init))) });
  const expected = {};
  for (let i = 0; i < 200; i++) {
    const chat = `telegram:-5${i % 4}`;
    (expected[chat] ??= []).push(`${i} 你好`);
    await memory.add(chat, { ...person, content: `${i} 你好`, sent_at: 1777300000 + i });
    if (i % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await until(() => memory.flush(), "all is sent");
  for (const [chat, contents] of Object.entries(expected)) assert.deepEqual(await said(memory, chat), contents);
  memory.close();
});

test("a bot never waits, and what it handed over survives its kill", async () => {
  const buffer = join(folder(), "bot.jsonl");
  const program = `
    import { Backscroll } from "@backscroll/client";
    const memory = new Backscroll({ url: "http://127.0.0.1:1", buffer: ${JSON.stringify(buffer)}, log: { warn() {}, error() {} } });
    for (let i = 0; ; i++) { await memory.add("telegram:-61", { sender_id: "telegram:13", content: String(i) }); console.log(i); await new Promise((r) => setTimeout(r, 1)); }`;
  const bot = spawn(process.execPath, ["--input-type=module", "-e", program], { cwd: import.meta.dirname });
  let confirmed = -1;
  for await (const line of bot.stdout.setEncoding("utf8")) if ((confirmed = Number(line.trim().split("\n").at(-1))) >= 50) break;
  bot.kill("SIGKILL");
  await new Promise((resolve) => bot.on("exit", resolve));
  // a kill may break off a line, which was not confirmed
  appendFileSync(buffer, '\n{"n":9999,"method":"PO');
  const memory = client({ buffer });
  assert.throws(() => client({ buffer }), BufferUnusable);
  await until(() => memory.flush(), "all is sent");
  const kept = await said(memory, "telegram:-61");
  assert.ok(kept.length > confirmed);
  assert.deepEqual(kept, [...kept.keys()].map(String));
  assert.equal(statSync(buffer).size, 0);
  memory.close();
  const slow = client({ buffer, fetch: () => new Promise(() => {}) });
  const began = Date.now();
  for (let i = 0; i < 100; i++) assert.equal(await slow.add("telegram:-62", { ...person, content: `${i}` }), false);
  assert.ok(Date.now() - began < 500);
  slow.close();
});

test("of two that start at once after a kill one has the buffer, until it closes it", async () => {
  const buffer = join(folder(), "bot.jsonl");
  writeFileSync(`${buffer}.lock`, "999999 1");
  let first;
  fs.readFileSync = (path, ...more) => {
    const words = readFileSync(path, ...more);
    if (path !== `${buffer}.lock`) return words;
    fs.readFileSync = readFileSync;
    first = client({ buffer, fetch: away });
    return words;
  };
  assert.throws(() => client({ buffer }), /open in process/);
  await first.add("telegram:-67", { ...person, content: "ประตูปิดแล้ว" });
  first.close();
  const next = client({ buffer, fetch: away });
  assert.equal(next.waiting, 1);
  first.close();
  await assert.rejects(first.add("telegram:-67", { ...person, content: "late" }), /is closed/);
  assert.throws(() => client({ buffer }), /open in process/);
  next.close();
});

test("only what the API refuses is set aside, alone, and can be sent again or dropped", async () => {
  const buffer = join(folder(), "bot.jsonl");
  const before = client({ buffer, fetch: away });
  const long = "長".repeat(30_000);
  await before.add("telegram:-63", ...["one", long, "two"].map((content) => ({ ...person, content })));
  await before.add("telegram:-63", { ...person, content: "three" });
  await before.edit("telegram:-63", "x", long);
  before.close();
  const memory = client({ buffer });
  await until(() => memory.flush(), "all is sent");
  assert.deepEqual(await said(memory, "telegram:-63"), ["one", "two", "three"]);
  assert.deepEqual(memory.setAside().map((request) => request.method), ["POST", "PATCH"]);
  assert.match(memory.setAside()[0].reason, /content/);
  assert.equal(memory.sendAgain(memory.setAside()[0].number), 1);
  await until(() => memory.setAside().length === 2, "it is refused again");
  memory.close();
  // and the next process knows of it
  const next = client({ buffer });
  assert.equal(next.setAside().length, 2);
  assert.equal(next.drop(...next.setAside().map((request) => request.number)), 2);
  next.close();
  assert.equal(readFileSync(buffer, "utf8"), "");
});

test("with a revoked key all waits for a better one", async () => {
  const buffer = join(folder(), "bot.jsonl");
  const revoked = client({ buffer, apiKey: "revoked" });
  await revoked.add("telegram:-64", { ...person, content: "שלום" });
  await assert.rejects(revoked.flush(), KeyRefused);
  revoked.close();
  const memory = client({ buffer });
  await until(() => memory.flush(), "all is sent");
  assert.deepEqual(await said(memory, "telegram:-64"), ["שלום"]);
  memory.close();
});

test("a full buffer, or none that can be written, is told unless the API takes it at once", async () => {
  const full = client({ buffer: join(folder(), "bot.jsonl"), maxBuffered: 1, fetch: away });
  await full.add("telegram:-65", { ...person, content: "first" });
  await assert.rejects(full.add("telegram:-66", { ...person, content: "second" }), /hand it over again/);
  assert.equal(await full.tee("telegram", { update_id: 1 }), false);
  full.close();
  writeFileSync(join(folder(), "file"), "");
  assert.throws(() => client({ buffer: "/dev/null/bot.jsonl" }), BufferUnusable);
});
