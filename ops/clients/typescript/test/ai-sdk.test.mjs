import assert from "node:assert/strict";
import { test } from "node:test";
import { backscroll } from "@backscroll/client/ai-sdk";
import { generateText, isStepCount, simulateReadableStream, streamText, tool, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { z } from "zod";
import { BOILER, client, hanging, QUESTION, until } from "./doubles.mjs";

const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };
const finish = (unified) => ({ unified, raw: unified });
const answer = (text) => ({ content: [{ type: "text", text }], finishReason: finish("stop"), usage, warnings: [] });
const call = { content: [{ type: "tool-call", toolCallId: "c1", toolName: "pressure", input: "{}" }], finishReason: finish("tool-calls"), usage, warnings: [] };
const heard = async (memory, chat) => (await memory.latest(chat)).map(({ role, content, sender_id }) => [role, sender_id, content]);

function model(...answers) {
  const seen = [];
  const doGenerate = async ({ prompt }) => {
    seen.push(prompt);
    const next = answers.shift();
    if (next instanceof Error) throw next;
    return next;
  };
  return { seen, model: new MockLanguageModelV4({ doGenerate }) };
}

test("the context comes before the model, and both sides are handed over once, with retries and tools", async () => {
  const [memory, chat] = [client(), "web:71"];
  await memory.add(chat, { sender_id: "web:maren", content: BOILER, sent_at: 1777300000 });
  const busy = Object.assign(new Error("busy"), { name: "AI_APICallError", [Symbol.for("vercel.ai.error")]: true, [Symbol.for("vercel.ai.error.AI_APICallError")]: true, isRetryable: true });
  const { seen, model: inner } = model(busy, call, answer("Am 4. Mai, 1.4 bar."));
  const wrapped = wrapLanguageModel({ model: inner, middleware: backscroll(memory, { chatId: chat, userId: "web:王芳", senderName: "王芳" }) });
  const tools = { pressure: tool({ inputSchema: z.object({}), execute: async () => "1.4 bar" }) };
  const { text } = await generateText({ model: wrapped, system: "Be brief.", prompt: QUESTION, tools, stopWhen: isStepCount(3) });
  assert.equal(text, "Am 4. Mai, 1.4 bar.");
  for (const prompt of seen) {
    assert.deepEqual(prompt.slice(0, 3).map((message) => message.role), ["system", "system", "user"]);
    assert.equal(prompt[0].content, "Be brief.");
    assert.match(prompt[1].content, /4 May/);
  }
  await until(async () => (await heard(memory, chat)).length === 3, "both sides are there");
  assert.deepEqual((await heard(memory, chat)).slice(1), [["user", "web:王芳", QUESTION], ["assistant", "ai-sdk:assistant", text]]);
});

test("a conversation that is sent again is stored once, and the same word said again is another message", async () => {
  const [memory, chat] = [client(), "web:72"];
  const ask = async (messages, more) => {
    const wrapped = wrapLanguageModel({ model: model(answer("Sí.")).model, middleware: backscroll(memory, { chatId: chat, userId: "web:1", ...more }) });
    await generateText({ model: wrapped, messages });
  };
  const conversation = [{ role: "user", content: "¿Gas?" }, { role: "assistant", content: "Sí." }, { role: "user", content: "¿Y agua?" }];
  // a server that is asked twice for the same, in two processes
  await ask(conversation);
  await ask(conversation);
  await until(async () => (await heard(memory, chat)).length === 2, "once");
  for (const _ of [1, 2]) await ask([{ role: "user", content: "ok" }]);
  for (const _ of [1, 2]) await ask([{ role: "user", content: "ok" }], { messageId: "4711" });
  await until(async () => (await heard(memory, chat)).filter(([, , content]) => content === "ok").length === 3, "two and one");
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal((await heard(memory, chat)).length, 2 + 4 + 2);
});

test("a stream is passed on as it comes, and handed over when it has ended", async () => {
  const [memory, chat, waited] = [client(), "web:73", []];
  const chunks = [{ type: "stream-start", warnings: [] }, { type: "text-start", id: "1" }, ...["Am ", "4. ", "Mai"].map((delta) => ({ type: "text-delta", id: "1", delta })), { type: "text-end", id: "1" }, { type: "finish", finishReason: finish("stop"), usage }];
  const inner = new MockLanguageModelV4({ doStream: async () => ({ stream: simulateReadableStream({ chunks, chunkDelayInMs: 20 }) }) });
  const wrapped = wrapLanguageModel({ model: inner, middleware: backscroll(memory, undefined, { waitUntil: (promise) => waited.push(promise) }) });
  const talk = { backscroll: { chatId: chat, userId: "web:2" } };
  const { textStream } = streamText({ model: wrapped, prompt: "Когда?", providerOptions: talk });
  const parts = [];
  for await (const part of textStream) parts.push(part);
  assert.equal(parts.join("|"), "Am |4. |Mai");
  assert.equal(waited.length, 2);
  await Promise.all(waited);
  assert.deepEqual((await heard(memory, chat)).map(([role, , content]) => [role, content]), [["user", "Когда?"], ["assistant", "Am 4. Mai"]]);
  await assert.rejects(generateText({ model: wrapped, prompt: "?", maxRetries: 0 }), /chatId and userId/);
});

test("the same words long after an answer that broke off are said again", async (t) => {
  const [memory, chat] = [client(), "web:75"];
  const { model: inner } = model(new Error("broken"), answer("Tak."));
  const wrapped = wrapLanguageModel({ model: inner, middleware: backscroll(memory, { chatId: chat, userId: "web:3" }) });
  await assert.rejects(generateText({ model: wrapped, prompt: "Jest prąd?", maxRetries: 0 }));
  const now = Date.now();
  t.mock.method(Date, "now", () => now + 3_600_000);
  await generateText({ model: wrapped, prompt: "Jest prąd?" });
  t.mock.restoreAll();
  await until(async () => (await heard(memory, chat)).length === 3, "two questions and an answer");
});

test("with memory away the model answers all the same, and soon", async () => {
  for (const options of [{ fetch: hanging }, { url: "http://127.0.0.1:1" }, { apiKey: "revoked" }]) {
    const memory = client({ patience: 1, ...options });
    const { seen, model: inner } = model(answer("Weiß nicht."));
    const wrapped = wrapLanguageModel({ model: inner, middleware: backscroll(memory, { chatId: "web:74", userId: "web:1" }, { timeout: 0.3 }) });
    const began = Date.now();
    assert.equal((await generateText({ model: wrapped, prompt: QUESTION })).text, "Weiß nicht.");
    assert.ok(Date.now() - began < 1000);
    assert.deepEqual(seen[0].map((message) => message.role), ["user"]);
    await until(() => memory.log.lines.length >= 1, "it is in the log");
  }
});
