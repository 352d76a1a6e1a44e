/** A way to the real API that is ill at times, and small helpers. */
import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Backscroll } from "@backscroll/client";

export const BOILER = "The new boiler comes on 4 May. 新锅炉五月四日到 🚿";
export const QUESTION = "When does the new boiler come?";

/** Log lines, to be looked at. */
export function keptLog() {
  const lines = [];
  const push = (line) => lines.push(line);
  return { lines, warn: push, error: push };
}

/** `fetch` by way of `ill`, which may answer in the API's place; what it returns undefined for goes through. */
export const by = (ill) => async (url, init) => (await ill(String(url), init)) ?? fetch(url, init);

/** An API that takes a connection and never answers. */
export const hanging = by(
  (_, { signal }) =>
    new Promise((_, reject) => {
      const open = setTimeout(() => {}, 60_000);
      signal.addEventListener("abort", () => (clearTimeout(open), reject(signal.reason)));
    }),
);

export const folder = () => mkdtempSync(join(tmpdir(), "backscroll-"));

export function client(options = {}) {
  return new Backscroll({ log: keptLog(), ...options });
}

export async function until(isSo, what, seconds = 30) {
  for (const end = Date.now() + seconds * 1000; !(await isSo()); await new Promise((resolve) => setTimeout(resolve, 25)))
    assert.ok(Date.now() < end, `not within ${seconds} s: ${what}`);
}

export const said = async (memory, chat) => (await memory.latest(chat, { limit: 1000 })).map((message) => message.content);
