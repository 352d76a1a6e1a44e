import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiFailed, Backscroll, KeyRefused, NoAnswer, NotFound, Refused } from "@backscroll/client";
import { BOILER, by, client, hanging, QUESTION, said } from "./doubles.mjs";

const CHAT = "telegram:-100420";

test("what was said is in the context, found, listed, changed and forgotten", async () => {
  const memory = client();
  assert.equal(await memory.add({ chat_id: CHAT, title: "Harbour House" }, { sender_id: "telegram:13", sender_name: "Maren", content: BOILER, sent_at: 1777300000, external_id: "1" }), true);
  assert.equal(await memory.add(CHAT, { sender_id: "telegram:12", content: "Кто кормил кота?" }, { sender_id: "telegram:14", content: "أنا", external_id: "a/b" }), true);
  const context = await memory.context(CHAT, QUESTION, { user_id: "telegram:12", budget_tokens: 1200 });
  assert.match(context.text, /4 May/);
  assert.match(context.background, /4 May/);
  assert.ok(!context.background.includes(QUESTION));
  assert.deepEqual(context.messages.at(-1).role, "user");
  assert.equal((await memory.search(CHAT, "кота", { mode: "exact", limit: 3 })).hits[0].text, "Кто кормил кота?");
  await memory.edit(CHAT, "1", BOILER.replace("4", "5"), { edited_at: new Date() });
  await memory.delete(CHAT, "a/b");
  assert.deepEqual(await said(memory, CHAT), [BOILER.replace("4", "5"), "Кто кормил кота?"]);
  assert.equal((await memory.remember("Maren has the key.", { user_id: "telegram:13", learned_in: CHAT })).outcome, "new");
  const [{ id }] = await memory.memories({ user_id: "telegram:13" });
  assert.equal((await memory.editMemory(id, { content: "Maren has the blue key." })).outcome, "edited");
  assert.match(JSON.stringify(await memory.about("telegram:13")), /has the blue key/);
  assert.equal((await memory.searchMemories("the blue key", { user_id: "telegram:13" }))[0].memory.id, id);
  assert.equal((await memory.deleteMemory(id)).outcome, "deleted");
  assert.equal((await memory.forgetUser("telegram:12")).seen, true);
  assert.deepEqual(await memory.latest("telegram:-1"), []);
});

test("what is wrong is told as in Python, in the API's own words", async () => {
  const memory = client();
  await assert.rejects(memory.context("telegram:-9", "?"), NotFound);
  await assert.rejects(memory.add(CHAT, { sender_id: "", content: "ö" }), (error) => error instanceof Refused && error.field.endsWith("sender_id"));
  await assert.rejects(memory.delete(CHAT, ".."), Refused);
  await assert.rejects(client({ apiKey: "wrong" }).latest(CHAT), KeyRefused);
  assert.throws(() => new Backscroll({ apiKey: "ключ" }), /characters/);
  assert.throws(() => new Backscroll({ url: "memory.example.org" }), /https/);
});

test("requests are repeated while nobody or somebody else answers, as long as there is patience", async () => {
  let asked = 0;
  const answers = [() => Promise.reject(new TypeError("fetch failed")), () => new Response("<p>Log in</p>", { status: 200 }), () => new Response("", { status: 502 })];
  const memory = client({ fetch: by(() => answers[asked++]?.()) });
  assert.equal(await memory.add(CHAT, { sender_id: "telegram:13", content: "さむい" }), true);
  assert.equal(asked, 4);
  await assert.rejects(client({ patience: 0, url: "http://127.0.0.1:1" }).latest(CHAT), NoAnswer);
  await assert.rejects(client({ patience: 0, fetch: by(() => new Response("{}", { status: 202 })) }).add(CHAT), ApiFailed);
});

test("a question is not waited for longer than its signal says", async () => {
  const memory = client({ fetch: hanging });
  const began = Date.now();
  await assert.rejects(memory.context(CHAT, QUESTION, {}, { signal: AbortSignal.timeout(200) }), NoAnswer);
  assert.ok(Date.now() - began < 1000);
});
