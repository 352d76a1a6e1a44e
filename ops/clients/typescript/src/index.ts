export { Backscroll, type Options } from "./client.js";
export type { Chat, Context, ContextFields, MemoryFields, Message, SearchFields, Time } from "./calls.js";
export type { SetAside } from "./buffer.js";
export * from "./errors.js";
