/** OpenClaw: keeps every message of every chat with its author, and brings the context before the prompt is built. */
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
import type { Message } from "./calls.js";
import { Backscroll, type Options } from "./client.js";
import { BufferUnusable } from "./errors.js";
import { sleep } from "./exchange.js";

/** For which a prompt waits for memory. */
const WAIT_MS = 300;
/** For an answer that is asked for when a turn begins. */
const PATIENCE_MS = 10_000;
const DEFAULT_BUFFER = "~/.openclaw/backscroll.jsonl";
const DEFAULT_BUDGET_TOKENS = 1500;
/** Where the process keeps its client: a plugin is registered more than once, and must not open the buffer twice. */
const HELD = Symbol.for("backscroll.openclaw");
const held = globalThis as { [HELD]?: { settings: string; memory: Backscroll } };

export default definePluginEntry({
  id: "backscroll",
  name: "Backscroll",
  description: "Remembers every message of every chat with its author, and brings what matters before the prompt.",
  register(api) {
    const { budgetTokens = DEFAULT_BUDGET_TOKENS, ...config } = api.pluginConfig ?? {};
    const buffer = api.resolvePath(config.buffer ?? DEFAULT_BUFFER);
    // at the first message: other programs of OpenClaw load plugins, too, to look at them
    const opened = () => open({ ...config, buffer }, api.logger);

    const keep = (chatId: string | undefined, isDirect: boolean | undefined, message: Message) => {
      if (!chatId || !message.content) return;
      const chat = isDirect === undefined ? chatId : { chat_id: chatId, kind: isDirect ? ("direct" as const) : ("group" as const) };
      void opened().add(chat, message).catch((error) => api.logger.error(`what was said in ${chatId} is not remembered: ${error.message}`));
    };

    // the internal event, and not the hook `message_received`, is also told of groups' messages that mention nobody
    api.registerHook("message:received", ({ sessionKey, context }) => {
      const { channelId: channel, metadata = {} } = context;
      const thread = metadata.threadId == null ? {} : { thread: String(metadata.threadId) };
      keep(idOf(channel, context.conversationId), !isGroup(sessionKey, context.from), {
        ...(context.messageId ? { external_id: context.messageId } : {}),
        ...(context.timestamp ? { sent_at: context.timestamp } : {}),
        sender_id: idOf(channel, metadata.senderId) ?? idOf(channel, context.from)!,
        ...(metadata.senderName ? { sender_name: metadata.senderName } : {}),
        content: context.content,
        ...thread,
      });
    }, { name: "backscroll", description: "Keeps every message with its author." });

    api.on("message_sent", (event, ctx) => {
      if (!event.success) return;
      const { channelId: channel, sessionKey } = ctx;
      keep(idOf(channel, ctx.conversationId ?? event.to), sessionKey && !isGroup(sessionKey) ? true : undefined, {
        ...(event.messageId ? { external_id: event.messageId } : {}),
        sender_id: `openclaw:${sessionKey?.split(":")[1] ?? "agent"}`,
        role: "assistant",
        content: event.content,
      });
    });

    // a turn begins long before its prompt is built
    const asked = new Map<string, Promise<string>>();
    const ask = (ctx: any, question: string): Promise<string> => {
      const [chatId, user] = [idOf(ctx.channel, ctx.chatId), idOf(ctx.channel, ctx.senderId)];
      if (!chatId || !question || ctx.trigger !== "user") return Promise.resolve("");
      const fields = { ...(user ? { user_id: user } : {}), budget_tokens: budgetTokens };
      return opened()
        .context(chatId, question, fields, { signal: AbortSignal.timeout(PATIENCE_MS) })
        .then((context) => context.background)
        .catch((error) => (api.logger.warn(`the agent answers without memory: ${error.message}`), ""));
    };

    api.on("before_model_resolve", (event, ctx) => {
      if (ctx.runId) asked.set(ctx.runId, ask(ctx, event.prompt?.trim()));
    });

    api.on("before_prompt_build", async (event, ctx) => {
      const answer = asked.get(ctx.runId) ?? ask(ctx, (event.currentUserMessage ?? event.prompt)?.trim());
      asked.delete(ctx.runId);
      const background = await Promise.race([answer, sleep(WAIT_MS / 1000)]);
      if (background === undefined) api.logger.warn(`the agent answers without memory: no answer within ${WAIT_MS} ms`);
      return background ? { prependContext: background } : undefined;
    });

    api.on("gateway_stop", () => held[HELD]?.memory.close());
  },
});

/** The client of this process, with these settings. */
function open(options: Options, log: Pick<Console, "warn" | "error">): Backscroll {
  const settings = JSON.stringify(options);
  if (held[HELD]?.settings === settings) return held[HELD].memory;
  held[HELD]?.memory.close();
  let memory: Backscroll;
  try {
    memory = new Backscroll({ ...options, log });
  } catch (error) {
    if (!(error instanceof BufferUnusable)) throw error;
    log.error(`what is said while the API is away is lost: ${error.message}`);
    memory = new Backscroll({ ...options, buffer: "", log });
  }
  held[HELD] = { settings, memory };
  return memory;
}

/** An id as Backscroll has it of the platform's own events: `telegram:-100420`, `discord:420`. */
function idOf(channel: string | undefined, id: unknown): string | undefined {
  const own = String(id ?? "")
    .replace(new RegExp(`^${channel}:`), "")
    .replace(/^(group|channel|direct|dm|user|chat|conversation):/, "")
    .replace(/:(topic|thread):.*$/, "")
    .replace(channel === "whatsapp" ? /^\+|@s\.whatsapp\.net$/g : /$^/, "");
  return channel && own ? `${channel}:${own}` : undefined;
}

/** Whether a chat is surely a group; else it is taken for a direct one, of which nothing is shown elsewhere. */
function isGroup(sessionKey: string | undefined, from?: string): boolean {
  return /:(group|channel):/.test(`${sessionKey}: ${from}`);
}
