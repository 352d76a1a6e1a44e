/** Requests as values, one function for each method of the client. */
import type { components } from "./api.js";
import { Refused } from "./errors.js";

type Schemas = components["schemas"];
type Some<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>;

/** With a time zone; a number is seconds or milliseconds since 1970, a text ISO 8601 with an offset. */
export type Time = Date | number | string;
export type Chat = Schemas["ChatIn"];
/** A message of a chat; without `external_id` and `sent_at` a new one, said now. */
export type Message = Some<Omit<Schemas["MessageIn"], "sent_at">, "external_id"> & { sent_at?: Time };
export type ContextFields = Partial<Omit<Schemas["ContextQuery"], "chat_id" | "query">>;
export type SearchFields = Partial<Omit<Schemas["SearchQuery"], "chat_id" | "query">>;
export type MemoryFields = Partial<Omit<Schemas["MemoryPayload"], "content">>;
/** What a bot puts before its model; `background` is its text without the question. */
export type Context = Schemas["Context"] & { background: string };

export interface Call<T> {
  method: string;
  path: string;
  body?: string;
  /** Reads the JSON of a success; throws for what is none. */
  read(answer: any): T;
  /** With which the API answers a success. */
  statuses: number[];
  /** Whether it waits in the buffer, if there is one, while the API is away. */
  buffered?: boolean;
  /** What it returns where there is no such thing; undefined: it throws `NotFound`. */
  absent?: T;
}

export const ADD = "/v1/messages";
const EVENTS = "/v1/events";
/** What names the chat of an event, on the platforms whose events are each of one chat. */
const CHAT_FIELDS: Record<string, string> = { telegram: "chat", slack: "channel", discord: "channel_id" };
/** Of an id in a path; the API takes 255, and says so. */
const MAX_ID_CHARS = 2000;

export function add(chat: string | Chat, ...messages: Message[]): Call<boolean> {
  const now = new Date().toISOString();
  const named = messages.map((message) => ({ external_id: crypto.randomUUID(), sent_at: now, ...message }));
  return change("POST", ADD, JSON.stringify({ chat, messages: named }));
}

export function edit(chatId: string, externalId: string, content: string, more: { edited_at?: Time } = {}): Call<boolean> {
  const body = { content, edited_at: more.edited_at ?? new Date() };
  return change("PATCH", path(ADD, chatId, externalId), JSON.stringify(body));
}

export function delete_(chatId: string, externalId: string): Call<boolean> {
  return change("DELETE", path(ADD, chatId, externalId));
}

export function event(platform: string, payload: unknown, more: { time_zone?: string; account?: string } = {}): Call<boolean> {
  const body = typeof payload === "string" ? payload : JSON.stringify(payload);
  return change("POST", path(EVENTS, platform) + query(more), body);
}

export function context(chatId: string, question: string, more: ContextFields = {}): Call<Context> {
  return post("/v1/context", { chat_id: chatId, query: question, ...more }, (answer: Schemas["Context"]) => {
    typed("messages", "object")(answer);
    const told = answer.blocks.filter((block) => block.kind !== "question").map((block) => block.text);
    return { ...answer, background: told.join("\n\n") };
  });
}

export function search(chatId: string, words: string, more: SearchFields = {}): Call<Schemas["SearchResult"]> {
  return post("/v1/search", { chat_id: chatId, query: words, ...more }, typed("hits", "object"));
}

export function latest(
  chatId: string,
  more: { limit?: number; session_key?: string; until?: Time } = {},
): Call<Schemas["ListedMessage"][]> {
  const read = (answer: any) => typed("messages", "object")(answer).messages;
  return { ...get(path("/v1/chats", chatId, "messages"), { limit: 100, ...more }, read), absent: [] };
}

export function remember(content: string, more: MemoryFields = {}): Call<Schemas["MemoryReceipt"]> {
  const scope = more.user_id != null ? "user" : more.agent_id != null ? "agent" : "organization";
  return post("/v1/memories", { scope, content, ...more }, typed("outcome", "string"), [200, 201]);
}

export function memories(more: Record<string, string | number | boolean | Date> = {}): Call<Schemas["Memory"][]> {
  return get("/v1/memories", { limit: 100, ...more }, (answer) => typed("memories", "object")(answer).memories);
}

export function searchMemories(words: string, more: Partial<Omit<Schemas["MemoryQuery"], "query">> = {}): Call<Schemas["MemoryHit"][]> {
  return post("/v1/memories/search", { query: words, ...more }, (answer: any) => typed("hits", "object")(answer).hits);
}

export function editMemory(memoryId: string, changes: Partial<Schemas["MemoryEdit"]>): Call<Schemas["MemoryReceipt"]> {
  return { ...post(path("/v1/memories", memoryId), changes, typed("outcome", "string")), method: "PATCH" };
}

export function deleteMemory(memoryId: string): Call<Schemas["MemoryReceipt"]> {
  return { method: "DELETE", path: path("/v1/memories", memoryId), read: typed("outcome", "string"), statuses: [200] };
}

export function about(userId: string, more: { chat_id?: string; limit?: number } = {}): Call<Schemas["UserPage"]> {
  return get(path("/v1/users", userId), { limit: 100, ...more }, typed("user_id", "string"));
}

export function forgetUser(senderId: string): Call<Schemas["StartedReceipt"]> {
  return post("/v1/forget", { kind: "user", sender_id: senderId }, typed("id", "number"), [202]);
}

/** A request that may wait in the buffer, as it was first or as the buffer kept it. */
export function change(method: string, path: string, body?: string): Call<boolean> {
  const receipt = method === "POST" ? typed("accepted", "number") : typed("outcome", "string");
  const read = (answer: any) => {
    const broken: Schemas["BrokenEvent"][] = receipt(answer).broken ?? [];
    if (!broken.length) return true;
    const told = broken.map((item) => `${item.where}: ${item.reason}`).join("; ");
    throw new Refused(`not all of the event is stored: ${told}`, broken[0]!.where);
  };
  return { method, path, body, read, statuses: [path.startsWith(EVENTS) || method === "DELETE" ? 200 : 202], buffered: true };
}

/** What a change must keep its order in: its chat, or its platform if the chat cannot be told. */
export function laneOf(path: string, body: string | undefined): string {
  if (path.startsWith(`${ADD}/`)) return decodeURIComponent(path.split("/")[3]!);
  let value: any;
  try {
    value = JSON.parse(body ?? "");
  } catch {
    return path;
  }
  if (path === ADD) return String(idOf(value.chat, "chat_id"));
  const platform = path.split("?")[0]!.split("/").at(-1)!;
  const field = CHAT_FIELDS[platform];
  let level = [value];
  while (field && (level = level.filter((held) => held && typeof held === "object" && !Array.isArray(held))).length) {
    for (const held of level) {
      const chat = idOf(held[field], "id");
      if (chat != null) return `${platform}:${chat}`;
    }
    level = level.flatMap((held) => Object.values(held));
  }
  return path;
}

function idOf(chat: any, field: string): unknown {
  return chat && typeof chat === "object" ? chat[field] : chat;
}

/** One change for each message of several, so that each of them stands for itself. */
export function each(call: Call<boolean>): Call<boolean>[] {
  if (call.path !== ADD) return [call];
  const { chat, messages } = JSON.parse(call.body!);
  return messages.map((message: unknown) => change("POST", ADD, JSON.stringify({ chat, messages: [message] })));
}

function post<T>(path: string, body: object, read: (answer: any) => T, statuses = [200]): Call<T> {
  return { method: "POST", path, body: JSON.stringify(body), read, statuses };
}

function get<T>(path: string, parameters: object, read: (answer: any) => T): Call<T> {
  return { method: "GET", path: path + query(parameters), read, statuses: [200] };
}

function query(parameters: object): string {
  const given = Object.entries(parameters).filter(([, value]) => value != null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, value instanceof Date ? value.toISOString() : String(value)]));
  return given.length ? `?${text}` : "";
}

/** Joins a path and ids, in which a slash is escaped. Throws `Refused` for what no path can contain. */
function path(first: string, ...ids: string[]): string {
  for (const id of ids)
    if (["", ".", ".."].includes(String(id)) || String(id).length > MAX_ID_CHARS)
      throw new Refused(`${JSON.stringify(String(id).slice(0, 50))} is no id: it has 1 to 255 characters, and not dots alone`);
  return [first, ...ids.map((id) => encodeURIComponent(id))].join("/");
}

/** A reader of an answer as it is, if it has this field of this type. */
function typed(field: string, kind: string): (answer: any) => any {
  return (answer) => {
    if (typeof answer?.[field] !== kind || answer[field] === null) throw new TypeError(`${field} is no ${kind}`);
    return answer;
  };
}
