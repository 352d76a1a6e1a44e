/** The client: `fetch` alone, for Node, Bun, Deno and the edge. */
import { Buffer, type SetAside } from "./buffer.js";
import * as calls from "./calls.js";
import type { Call, Context, ContextFields } from "./calls.js";
import { BackscrollError, BufferUnusable, Refused } from "./errors.js";
import { outcomeOf, type Server, sent, sleep, Slots } from "./exchange.js";

const DEFAULT_URL = "http://127.0.0.1:8420";
const MAX_BUFFERED = 100_000;

export interface Options {
  /** Default: the variable BACKSCROLL_URL. */
  url?: string;
  /** Default: the variable BACKSCROLL_API_KEY. */
  apiKey?: string;
  /** The file in which what is handed over waits until it is committed. Default: the variable BACKSCROLL_BUFFER. */
  buffer?: string;
  maxBuffered?: number;
  /** Seconds for which requests are repeated while the API is away. */
  patience?: number;
  fetch?: typeof fetch;
  log?: Pick<Console, "warn" | "error">;
}

export class Backscroll {
  readonly url: string;
  readonly log: Pick<Console, "warn" | "error">;
  readonly #server: Server;
  readonly #patience: number;
  readonly #buffer: Buffer | undefined;

  constructor(options: Options = {}) {
    const environment: Record<string, string | undefined> = (globalThis as any).process?.env ?? {};
    const key = (options.apiKey ?? environment.BACKSCROLL_API_KEY ?? "").trim();
    if (!key) throw new TypeError("there is no API key: give apiKey, or set BACKSCROLL_API_KEY");
    if (!/^[\x20-\x7e]+$/.test(key)) throw new TypeError("the API key holds characters that no key has");
    this.url = (options.url ?? (environment.BACKSCROLL_URL || DEFAULT_URL)).replace(/\/+$/, "");
    if (!/^https?:\/\//.test(this.url)) throw new TypeError("this is not a URL: it must begin with http:// or https://");
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    // called as a function of the global object, which browsers and workers insist on
    const request = options.fetch ?? ((input, init) => fetch(input, init));
    this.#server = { url: this.url, headers, fetch: request, slots: new Slots() };
    this.#patience = options.patience ?? 30;
    this.log = options.log ?? console;
    const path = options.buffer ?? environment.BACKSCROLL_BUFFER;
    const send = (call: Call<boolean>) => outcomeOf(this.#server, call);
    this.#buffer = path ? new Buffer(path, options.maxBuffered ?? MAX_BUFFERED, send, this.log) : undefined;
  }

  /** Hands over messages of one chat; resolves whether they are committed, else they are in the buffer. */
  readonly add = this.#method(calls.add);
  /** Gives a message its new text. */
  readonly edit = this.#method(calls.edit);
  /** Deletes a message for good. */
  readonly delete = this.#method(calls.delete_);
  /** Hands over a platform's own event, as it came. Without a buffer throws `Refused` if anything in it is broken. */
  readonly event = this.#method(calls.event);
  /** Searches a chat. */
  readonly search = this.#method(calls.search);
  /** Gets the latest messages of a chat, the newest last. */
  readonly latest = this.#method(calls.latest);
  /** Remembers a statement about a user, an agent, or else the organization. */
  readonly remember = this.#method(calls.remember);
  /** Lists memories, newest first. */
  readonly memories = this.#method(calls.memories);
  /** Finds memories, best first. */
  readonly searchMemories = this.#method(calls.searchMemories);
  /** Changes the words, importance, expiry or metadata of a memory. */
  readonly editMemory = this.#method(calls.editMemory);
  /** Deletes a memory, which may be written again. */
  readonly deleteMemory = this.#method(calls.deleteMemory);
  /** Gets what is known of a person; with `chat_id` only what may be shown there. */
  readonly about = this.#method(calls.about);
  /** Forgets everything that somebody said, for good. */
  readonly forgetUser = this.#method(calls.forgetUser);

  /** Gets what to put before a chat model for this question. */
  async context(chatId: string, question: string, more: ContextFields = {}, options: { signal?: AbortSignal } = {}): Promise<Context> {
    return this.#sent(calls.context(chatId, question, more), options.signal);
  }

  /** Hands over what a platform sent, as `event`; what goes wrong is logged, and the bot goes on. It need not be awaited. */
  async tee(platform: string, payload: unknown, more: { time_zone?: string; account?: string } = {}): Promise<boolean> {
    try {
      return await this.event(platform, payload, more);
    } catch (error) {
      this.log.error(`what ${platform} sent is not remembered: ${(error as Error).message}`);
      return false;
    }
  }

  /** The number of messages and changes in the buffer that are to be sent. */
  get waiting(): number {
    return this.#buffer?.waiting ?? 0;
  }

  /** Sends what waits in the buffer; resolves whether nothing is left. Throws `KeyRefused` if it waits because of the key. */
  async flush(): Promise<boolean> {
    return this.#buffer?.flush() ?? true;
  }

  /** The requests in the buffer that the API refused for good, with its reasons. */
  setAside(): SetAside[] {
    return this.#buffer?.setAside() ?? [];
  }

  /** Lets requests that were set aside wait again, all of them without numbers; returns how many do. */
  sendAgain(...numbers: number[]): number {
    return this.#buffer?.sendAgain(numbers) ?? 0;
  }

  /** Deletes requests from the buffer for good, set aside or waiting; returns how many were there. */
  drop(...numbers: number[]): number {
    return this.#buffer?.drop(numbers) ?? 0;
  }

  /** Closes the buffer; what waits in it is sent by the next client that opens it. */
  close(): void {
    this.#buffer?.close();
  }

  #method<A extends unknown[], T>(make: (...given: A) => Call<T>): (...given: A) => Promise<T> {
    return async (...given) => this.#sent(make(...given));
  }

  async #sent<T>(call: Call<T>, signal?: AbortSignal): Promise<T> {
    if (!this.#buffer) return sent(this.#server, call, this.#patience, signal);
    if (call.buffered) return this.#handedOver(this.#buffer, call as Call<any>) as T;
    // an answer should know all that was handed over before, but not come too late for that
    const done = new AbortController();
    const settled = this.#buffer.settled().finally(() => done.abort());
    await Promise.race([settled, sleep(this.#patience, signal ? AbortSignal.any([signal, done.signal]) : done.signal)]);
    if (this.waiting) this.log.warn(`an answer does not know all that was handed over before: ${this.waiting} wait`);
    return sent(this.#server, call, this.#patience, signal);
  }

  async #handedOver(buffer: Buffer, call: Call<boolean>): Promise<boolean> {
    try {
      buffer.append(call);
      return false;
    } catch (unusable) {
      if (!(unusable instanceof BufferUnusable)) throw unusable;
      const outcome = buffer.overtakes(call) ? unusable : await outcomeOf(this.#server, call);
      if (outcome instanceof Refused) throw outcome;
      if (outcome instanceof BackscrollError) throw new BufferUnusable(`${unusable.message} This was not kept: hand it over again.`);
      return outcome;
    }
  }
}
