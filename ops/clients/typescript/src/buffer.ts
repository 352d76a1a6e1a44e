/**
 * What is handed over, in order for each chat, until it is committed or set aside.
 *
 * Only the API's own receipt commits, only its own refusal of one change alone sets that aside; after anything else what
 * waits is tried again after a pause, for ever. Ids are given before it is written down, so that nothing doubles.
 */
import { ADD, type Call, change, each, laneOf } from "./calls.js";
import { BackscrollError, BufferUnusable, KeyRefused, NoAnswer, Refused, Unavailable } from "./errors.js";
import { FIRST_PAUSE_SECONDS } from "./exchange.js";
import { Journal } from "./journal.js";

/** Messages in one request; the API takes 1,000. */
const MAX_BATCH = 500;
const MAX_BATCH_CHARS = 1024 * 1024;
/** After so many lines that say nothing any more, and no fewer than still say something, the file is written anew. */
const MAX_STALE_LINES = 2000;
const MAX_PAUSE_SECONDS = 30;
/** For which a `Retry-After` is believed: a limit may be lifted meanwhile. */
const MAX_TOLD_SECONDS = 600;

/** A request that the API refused, with its reason; it is in the buffer until it is dropped. */
export interface SetAside {
  number: number;
  method: string;
  path: string;
  body?: string;
  reason: string;
}

interface Entry {
  n: number;
  call: Call<boolean>;
}

class Lane {
  entries: Entry[] = [];
  /** So many are tried together. */
  size = MAX_BATCH;
  pause = 0;
  toldUntil = 0;
  reason: BackscrollError | undefined;
  timer: ReturnType<typeof setTimeout> | undefined;
  passing: Promise<void> | undefined;
}

export class Buffer {
  readonly #journal: Journal;
  readonly #lanes = new Map<string, Lane>();
  readonly #aside = new Map<number, SetAside>();
  #last = 0;
  #isClosed = false;
  waiting = 0;

  constructor(
    path: string,
    readonly limit: number,
    readonly send: (call: Call<boolean>) => Promise<boolean | BackscrollError>,
    readonly log: Pick<Console, "warn" | "error">,
  ) {
    this.#journal = new Journal(path);
    const kept = new Map<number, any>();
    for (const record of this.#journal.records()) {
      if (record.gone) for (const n of record.gone) kept.delete(n);
      else kept.set(record.n, { ...kept.get(record.n), ...record });
      this.#last = Math.max(this.#last, record.n ?? 0);
    }
    for (const { n, method, path, body, reason } of kept.values()) {
      if (reason) this.#aside.set(n, { number: n, method, path, body, reason });
      else this.#wait({ n, call: change(method, path, body) });
    }
    this.#compact();
    this.#wake();
  }

  /** Writes down what a call hands over, and goes on sending. */
  append(call: Call<boolean>): void {
    const calls = each(call);
    if (this.waiting + this.#aside.size + calls.length > this.limit) {
      const held = `${this.waiting} requests wait for the API, ${this.#aside.size} are set aside`;
      throw new BufferUnusable(`the buffer ${this.#journal.path} is full: ${held}.`);
    }
    const entries = calls.map((call) => ({ n: ++this.#last, call }));
    this.#journal.append(...entries.map(recordOf));
    for (const lane of new Set(entries.map((entry) => this.#wait(entry)))) if (!lane.timer) this.#pass(lane);
  }

  /** Whether a call that is not written down would overtake something. */
  overtakes(call: Call<boolean>): boolean {
    return Boolean(this.#lanes.get(laneOf(call.path, call.body))?.entries.length);
  }

  /** Sends what waits but was not told to; resolves when nothing is on its way. */
  async settled(): Promise<void> {
    this.#wake((lane) => Date.now() >= lane.toldUntil);
    await this.#passed();
  }

  /** Sends what waits; resolves whether nothing is left to be sent. Throws `KeyRefused` if something waits because of the key. */
  async flush(): Promise<boolean> {
    let before: number;
    do {
      before = this.waiting;
      this.#wake();
      await this.#passed();
    } while (this.waiting && this.waiting < before);
    for (const { reason } of this.#lanes.values()) if (reason instanceof KeyRefused) throw reason;
    return !this.waiting;
  }

  setAside(): SetAside[] {
    return [...this.#aside.values()];
  }

  sendAgain(numbers: number[]): number {
    const again = (numbers.length ? numbers : [...this.#aside.keys()]).flatMap((n) => this.#aside.get(n) ?? []);
    for (const { number, method, path, body } of again) {
      this.#aside.delete(number);
      this.#journal.append({ n: number, reason: "" });
      const lane = this.#wait({ n: number, call: change(method, path, body) });
      lane.entries.sort((one, other) => one.n - other.n);
    }
    this.#wake();
    return again.length;
  }

  drop(numbers: number[]): number {
    const before = this.waiting + this.#aside.size;
    for (const n of numbers) this.#aside.delete(n);
    for (const lane of this.#lanes.values()) this.#leave(lane, new Set(numbers));
    this.#note({ gone: numbers });
    return before - this.waiting - this.#aside.size;
  }

  close(): void {
    this.#isClosed = true;
    for (const lane of this.#lanes.values()) clearTimeout(lane.timer);
    this.#journal.close();
  }

  #wait(entry: Entry): Lane {
    const name = laneOf(entry.call.path, entry.call.body);
    const lane = this.#lanes.get(name) ?? new Lane();
    this.#lanes.set(name, lane);
    lane.entries.push(entry);
    this.waiting += 1;
    return lane;
  }

  #leave(lane: Lane, numbers: Set<number>): void {
    const left = lane.entries.filter((entry) => !numbers.has(entry.n));
    this.waiting -= lane.entries.length - left.length;
    lane.entries = left;
  }

  #wake(which: (lane: Lane) => boolean = () => true): void {
    for (const lane of this.#lanes.values()) if (which(lane)) this.#pass(lane);
  }

  async #passed(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.passing));
  }

  /** Sends a lane until it is empty or must rest. */
  #pass(lane: Lane): void {
    if (lane.passing || this.#isClosed) return;
    clearTimeout(lane.timer);
    lane.timer = undefined;
    lane.passing = this.#sendAll(lane).finally(() => {
      lane.passing = undefined;
      if (lane.entries.length && !lane.timer) this.#pass(lane);
      else if (!lane.entries.length) for (const [name, other] of this.#lanes) if (other === lane) this.#lanes.delete(name);
    });
  }

  async #sendAll(lane: Lane): Promise<void> {
    while (lane.entries.length && !this.#isClosed) {
      const [batch, call] = next(lane);
      const outcome = await this.send(call);
      if (this.#isClosed) return;
      const numbers = batch.map((entry) => entry.n);
      if (!(outcome instanceof BackscrollError)) {
        this.#leave(lane, new Set(numbers));
        Object.assign(lane, { pause: 0, toldUntil: 0, reason: undefined, size: Math.min(2 * lane.size, MAX_BATCH) });
        this.#note({ gone: numbers });
      } else if (outcome instanceof Refused && batch.length === 1) {
        const { n: number, call } = batch[0]!;
        // dropped meanwhile
        if (!lane.entries.includes(batch[0]!)) continue;
        this.#leave(lane, new Set(numbers));
        this.#aside.set(number, { number, method: call.method, path: call.path, body: call.body!, reason: outcome.message });
        this.#note({ n: number, reason: outcome.message });
        this.log.error(`request ${number} of ${this.#journal.path} is refused and set aside: ${outcome.message}`);
      } else if (outcome instanceof Refused) {
        lane.size = Math.ceil(batch.length / 2);
      } else if (outcome instanceof Unavailable && !(outcome instanceof NoAnswer) && batch.length > 1) {
        // alone, the first shows whether it is the API, or else their number or one of the others
        lane.size = 1;
      } else {
        if (outcome instanceof NoAnswer) lane.size = Math.ceil(batch.length / 2);
        this.#rest(lane, outcome, numbers[0]!);
      }
      if (lane.timer) return;
    }
  }

  #rest(lane: Lane, reason: BackscrollError, number: number): void {
    if (!lane.reason) this.log.warn(`request ${number} of ${this.#journal.path} waits, and what is behind it in its chat: ${reason.message}`);
    const told = Math.min((reason instanceof Unavailable && reason.retryAfter) || 0, MAX_TOLD_SECONDS);
    lane.reason = reason;
    lane.pause = Math.min(Math.max(FIRST_PAUSE_SECONDS, 2 * lane.pause), MAX_PAUSE_SECONDS);
    lane.toldUntil = Date.now() + told * 1000;
    lane.timer = setTimeout(() => this.#pass(lane), Math.max(lane.pause, told) * 1000);
    // what waits is in the file: a program that has nothing else to do may end
    (lane.timer as any).unref?.();
  }

  #note(record: { n?: number; gone?: number[]; reason?: string }): void {
    this.#journal.note(record);
    const held = this.waiting + this.#aside.size;
    if (!held || this.#journal.stale > Math.max(MAX_STALE_LINES, held)) this.#compact();
  }

  #compact(): void {
    const waiting = [...this.#lanes.values()].flatMap((lane) => lane.entries).sort((one, other) => one.n - other.n);
    // what could not be written stays as it was, and is written with the next
    try {
      this.#journal.rewrite([...[...this.#aside.values()].map(({ number: n, ...more }) => ({ n, ...more })), ...waiting.map(recordOf)]);
    } catch (error) {
      this.log.warn((error as Error).message);
    }
  }
}

function recordOf({ n, call: { method, path, body } }: Entry): object {
  return { n, method, path, body };
}

/** What is tried next of a lane, merged into one request where it adds to the same chat. */
function next(lane: Lane): [Entry[], Call<boolean>] {
  const first = lane.entries[0]!;
  if (first.call.path !== ADD) return [[first], first.call];
  const merged = JSON.parse(first.call.body!);
  const chat = JSON.stringify(merged.chat);
  const batch = [first];
  let size = first.call.body!.length;
  for (const entry of lane.entries.slice(1, lane.size)) {
    const other = entry.call.path === ADD ? JSON.parse(entry.call.body!) : {};
    size += entry.call.body?.length ?? 0;
    if (JSON.stringify(other.chat) !== chat || size > MAX_BATCH_CHARS) break;
    merged.messages.push(...other.messages);
    batch.push(entry);
  }
  return [batch, change("POST", ADD, JSON.stringify(merged))];
}
