/** Vercel's AI SDK: a middleware that puts what memory knows before the model, and hands over what both sides say. */
import type { LanguageModelV4CallOptions, LanguageModelV4Middleware, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Message } from "./calls.js";
import type { Backscroll } from "./client.js";

const MAX_REMEMBERED_TURNS = 200;
/** After which the same words are another turn: the answer to the one before was broken off. */
const MAX_TURN_MS = 600_000;

/** Who speaks where; a call may name it itself: `providerOptions: { backscroll: { chatId, userId } }`. */
export interface Talk {
  chatId: string;
  userId: string;
  /** The platform's id of the newest message, by which it is stored once. Default: made of the conversation before it. */
  messageId?: string;
  senderName?: string;
  /** The id under which the model's words are stored. */
  agentId?: string;
}

export interface MiddlewareOptions {
  /** Seconds to wait for the context; without one the model is asked all the same. */
  timeout?: number;
  budget_tokens?: number;
  /** Of a platform that stops a function once it has answered: `waitUntil` of Vercel or Cloudflare. */
  waitUntil?: (promise: Promise<unknown>) => void;
}

interface Turn {
  id: string;
  background: string;
}

export function backscroll(memory: Backscroll, talk?: Talk, options: MiddlewareOptions = {}): LanguageModelV4Middleware {
  // by what was said, while a turn goes on: its retries and its calls of tools are parts of it
  const turns = new Map<string, { began: number; turn: Promise<Turn> }>();

  const talkOf = (params: LanguageModelV4CallOptions): Talk => {
    const all = { ...talk, ...params.providerOptions?.backscroll } as Talk;
    if (!all.chatId || !all.userId) throw new TypeError("backscroll: name chatId and userId, in the middleware or in providerOptions.backscroll");
    return all;
  };

  const handOver = ({ chatId }: Talk, message: Message) => {
    const handed = memory.add(chatId, message).catch((error) => memory.log.error(`what was said in ${chatId} is not remembered: ${error.message}`));
    options.waitUntil?.(handed);
  };

  const begun = async (asker: Talk, said: Said): Promise<Turn> => {
    const id = asker.messageId ?? (said.hasHistory ? await digest(JSON.stringify([asker.userId, said.key])) : crypto.randomUUID());
    if (!said.question) return { id, background: "" };
    const name = asker.senderName ? { sender_name: asker.senderName } : {};
    if (!said.steps) handOver(asker, { external_id: id, sender_id: asker.userId, content: said.question, ...name });
    const fields = { user_id: asker.userId, include_history: false, ...(options.budget_tokens ? { budget_tokens: options.budget_tokens } : {}) };
    try {
      const signal = AbortSignal.timeout((options.timeout ?? 3) * 1000);
      return { id, background: (await memory.context(asker.chatId, said.question, fields, { signal })).background };
    } catch (error) {
      memory.log.warn(`the model answers without memory: ${(error as Error).message}`);
      return { id, background: "" };
    }
  };

  const turnOf = (params: LanguageModelV4CallOptions): Promise<Turn> => {
    const [asker, said] = [talkOf(params), saidIn(params.prompt)];
    const key = JSON.stringify([asker, said.key]);
    const before = turns.get(key);
    if (before && Date.now() < before.began + MAX_TURN_MS) return before.turn;
    const turn = begun(asker, said);
    turns.set(key, { began: Date.now(), turn });
    if (turns.size > MAX_REMEMBERED_TURNS) turns.delete(turns.keys().next().value!);
    return turn;
  };

  const answered = async (params: LanguageModelV4CallOptions, text: string, finish: string) => {
    const [asker, said, { id }] = [talkOf(params), saidIn(params.prompt), await turnOf(params)];
    if (finish !== "tool-calls") turns.delete(JSON.stringify([asker, said.key]));
    if (!text.trim()) return;
    const answer = said.hasHistory || asker.messageId ? await digest(text) : "";
    const external_id = `${id}:${said.steps}:${answer.slice(0, 16)}`;
    handOver(asker, { external_id, sender_id: asker.agentId ?? "ai-sdk:assistant", role: "assistant", content: text });
  };

  return {
    specificationVersion: "v4",
    transformParams: async ({ params }) => {
      const { background } = await turnOf(params);
      if (!background) return params;
      const prompt = [...params.prompt];
      const first = prompt.findIndex((message) => message.role !== "system");
      prompt.splice(first < 0 ? prompt.length : first, 0, { role: "system", content: background });
      return { ...params, prompt };
    },
    wrapGenerate: async ({ doGenerate, params }) => {
      const result = await doGenerate();
      await answered(params, result.content.map((part) => (part.type === "text" ? part.text : "")).join(""), result.finishReason.unified);
      return result;
    },
    wrapStream: async ({ doStream, params }) => {
      const result = await doStream();
      let text = "";
      const watched = new TransformStream<LanguageModelV4StreamPart, LanguageModelV4StreamPart>({
        async transform(part, controller) {
          controller.enqueue(part);
          if (part.type === "text-delta") text += part.delta;
          if (part.type === "finish") await answered(params, text, part.finishReason.unified);
        },
      });
      return { ...result, stream: result.stream.pipeThrough(watched) };
    },
  };
}

interface Said {
  /** All that was said, up to the question. */
  key: string;
  question: string;
  /** Whether the model answered before. */
  hasHistory: boolean;
  /** The number of answers to the question so far, such as calls of tools. */
  steps: number;
}

function saidIn(prompt: LanguageModelV4CallOptions["prompt"]): Said {
  const spoken = prompt.filter((message) => message.role !== "system");
  const last = spoken.findLastIndex((message) => message.role === "user");
  const words = spoken.slice(0, last + 1).map((message) => [message.role, message.content.map((part) => (part.type === "text" ? part.text : "")).join("\n")]);
  return {
    key: JSON.stringify(words),
    question: words.at(-1)?.[1]?.trim() ?? "",
    hasHistory: words.some(([role]) => role === "assistant"),
    steps: spoken.slice(last + 1).filter((message) => message.role === "assistant").length,
  };
}

async function digest(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
