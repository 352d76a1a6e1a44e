/** What an answer means, and how requests that failed are repeated. */
import type { Call } from "./calls.js";
import * as errors from "./errors.js";

const PROBLEM_TYPES = "urn:backscroll:problem:";
/** How a Backscroll without such a path says so: then the URL or its version is wrong, not the request. */
const UNKNOWN_PATH = "Not Found";
/** After which to ask again what did not answer in time. */
const STALLED_SECONDS = 30;
export const FIRST_PAUSE_SECONDS = 0.25;
/** For an answer: the first question after a start waits until the model is loaded. */
export const TIMEOUT_SECONDS = 60;

export interface Server {
  url: string;
  headers: Record<string, string>;
  fetch: typeof fetch;
  /** In which changes are sent, so that a flood of events opens no flood of connections. */
  slots: Slots;
}

export class Slots {
  #free = 8;
  #queue: (() => void)[] = [];

  async run<T>(act: () => Promise<T>): Promise<T> {
    if (this.#free) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#queue.push(resolve));
    try {
      return await act();
    } finally {
      const next = this.#queue.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}

/** Sends a call once; returns its answer, or the error that it tells. */
export async function outcomeOf<T>(server: Server, call: Call<T>, signal?: AbortSignal): Promise<T | errors.BackscrollError> {
  return call.buffered ? server.slots.run(() => exchanged(server, call, signal)) : exchanged(server, call, signal);
}

async function exchanged<T>(server: Server, call: Call<T>, signal?: AbortSignal): Promise<T | errors.BackscrollError> {
  const timeout = AbortSignal.timeout(TIMEOUT_SECONDS * 1000);
  let response: Response;
  let text: string;
  try {
    response = await server.fetch(server.url + call.path, {
      method: call.method,
      headers: server.headers,
      redirect: "manual",
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      ...(call.body === undefined ? {} : { body: call.body }),
    });
    text = await response.text();
  } catch (error) {
    const cause = (error as any)?.cause?.code ?? (error as Error).message;
    const told = `the Backscroll at ${server.url} does not answer (${cause})`;
    return new errors.NoAnswer(told, timeout.aborted ? STALLED_SECONDS : undefined);
  }
  return meaningOf(call, response, text);
}

function meaningOf<T>(call: Call<T>, response: Response, text: string): T | errors.BackscrollError {
  let value: any;
  try {
    value = JSON.parse(text);
    if (call.statuses.includes(response.status)) return call.read(value);
  } catch (error) {
    if (error instanceof errors.Refused) return error;
    // else somebody else's success, or no JSON
  }
  const mediaType = response.headers.get("Content-Type")?.split(";")[0]!.trim().toLowerCase() ?? "";
  if (mediaType === "application/problem+json" && String(value?.type).startsWith(PROBLEM_TYPES)) {
    const problem = problemOf(value, response);
    if (problem) return problem;
  }
  const told = `${call.method} ${call.path.split("?")[0]} was not answered by a Backscroll: ${response.status}`;
  const hint = response.status < 500 ? `${mediaType}. Is the URL right?` : mediaType;
  return new errors.ApiFailed(`${told} ${hint}`.trim(), retryAfter(response));
}

function problemOf(problem: any, response: Response): errors.BackscrollError | undefined {
  const detail = String(problem.detail);
  const field = String(problem.field ?? "");
  const status = response.status;
  if (status === 401) return new errors.KeyRefused(detail);
  if (status === 403) return new errors.Forbidden(detail);
  if (status === 404 && detail !== UNKNOWN_PATH) return new errors.NotFound(detail, field);
  if ([400, 413, 422].includes(status)) return new errors.Refused(detail, field);
  if (status === 409 && !response.headers.has("Retry-After")) return new errors.Refused(detail, field);
  if ([408, 409, 429, 503].includes(status)) return new errors.Unavailable(detail, retryAfter(response));
  if (status === 500) return new errors.ApiFailed(`${detail} ${problem.request_id ?? ""}`.trim());
  return undefined;
}

function retryAfter(response: Response): number | undefined {
  const seconds = response.headers.get("Retry-After") ?? "";
  // a date, which a proxy may send, is as good as none
  return /^\d+$/.test(seconds) ? Number(seconds) : undefined;
}

/** Repeats a call while the API is not available, for `patience` seconds; throws what stays wrong. */
export async function sent<T>(server: Server, call: Call<T>, patience: number, signal?: AbortSignal): Promise<T> {
  const until = Date.now() + patience * 1000;
  for (let pause = FIRST_PAUSE_SECONDS; ; pause *= 2) {
    const outcome = await outcomeOf(server, call, signal);
    if (outcome instanceof errors.NotFound && call.absent !== undefined) return call.absent;
    if (!(outcome instanceof errors.BackscrollError)) return outcome;
    // bots that were cut off together do not come back together
    const seconds = outcome instanceof errors.Unavailable ? Math.max(outcome.retryAfter ?? 0, pause * (0.5 + Math.random() / 2)) : Infinity;
    if (Date.now() + seconds * 1000 > until || signal?.aborted) throw outcome;
    await sleep(seconds, signal);
  }
}

/** Resolves after so many seconds, or as soon as the signal says so. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => resolve(clearTimeout(timer)), { once: true });
  });
}
