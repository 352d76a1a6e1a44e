/** OpenClaw: keeps every message of every chat with its author, and brings the context before the prompt is built. */
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
import { Backscroll, type Options } from "./client.js";
import { BufferUnusable } from "./errors.js";

/** Nothing waits for memory longer. */
const TIMEOUT_MS = 300;
const DEFAULT_BUFFER = "~/.openclaw/backscroll.jsonl";
const DEFAULT_BUDGET_TOKENS = 1500;
/** Where the process keeps its client, as a reloaded plugin must not open the buffer twice. */
const HELD = Symbol.for("backscroll.openclaw");

export default definePluginEntry({
  id: "backscroll",
  name: "Backscroll",
  description: "Remembers every message of every chat with its author, and brings what matters before the prompt.",
  register(api) {
    const config = api.pluginConfig ?? {};
    let memory: Backscroll | undefined;
    // at the first message: other programs of OpenClaw load plugins, too, to look at them
    const opened = () => (memory ??= open({ ...config, buffer: api.resolvePath(config.buffer ?? DEFAULT_BUFFER), log: api.logger }));

    api.on("message_received", (event, ctx) => {
      console.error("RECEIVED", JSON.stringify([event, ctx]));
    });
    api.on("message_sent", (event, ctx) => {
      console.error("SENT", JSON.stringify([event, ctx]));
    });
    api.on("before_prompt_build", async (event, ctx) => {
      console.error("PROMPT", JSON.stringify([{ ...event, messages: event.messages?.length }, ctx]));
      return { prependContext: "CONTEXT-MARK" };
    });
  },
});

function open(options: Options): Backscroll {
  const held = globalThis as { [HELD]?: Backscroll };
  held[HELD]?.close();
  try {
    held[HELD] = new Backscroll(options);
  } catch (error) {
    if (!(error instanceof BufferUnusable)) throw error;
    options.log?.error(`without a buffer, as ${error.message}`);
    held[HELD] = new Backscroll({ ...options, buffer: "" });
  }
  return held[HELD]!;
}
