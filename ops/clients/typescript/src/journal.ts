/** A file of JSON lines that one process has for itself: what is appended survives a kill. */
import type * as FS from "node:fs";
import { BufferUnusable } from "./errors.js";

export class Journal {
  readonly #fs: typeof FS;
  #file = -1;
  /** The number of lines that say nothing any more. */
  stale = 0;
  /** What a full disk kept from being written; it goes before the next. */
  #unwritten: object[] = [];

  constructor(readonly path: string) {
    // not imported, so that bundlers for the edge do not look for it
    const fs = (globalThis as any).process?.getBuiltinModule?.("node:fs");
    if (!fs) throw new BufferUnusable("a buffer needs a file system: Node 20.16, Bun or Deno 2.");
    this.#fs = fs;
    this.#using(() => {
      this.#lock();
      this.#file = fs.openSync(path, "a", 0o600);
    });
  }

  /** The records that were written, oldest first; a line that a kill broke off was never confirmed. */
  records(): any[] {
    return this.#using(() => {
      const lines = this.#fs.readFileSync(this.path, "utf8").split("\n");
      return lines.flatMap((line) => {
        try {
          return line ? [JSON.parse(line)] : [];
        } catch {
          return [];
        }
      });
    });
  }

  /** Replaces all records. */
  rewrite(records: object[]): void {
    this.#using(() => {
      if (!records.length) {
        this.#fs.ftruncateSync(this.#file);
        return this.#clean();
      }
      const other = `${this.path}.new`;
      // it holds what people wrote
      this.#fs.writeFileSync(other, records.map((record) => `\n${JSON.stringify(record)}`).join(""), { mode: 0o600, flush: true } as object);
      this.#fs.renameSync(other, this.path);
      this.#fs.closeSync(this.#file);
      this.#file = this.#fs.openSync(this.path, "a");
      this.#clean();
    });
  }

  #clean(): void {
    this.stale = 0;
    this.#unwritten = [];
  }

  /** Appends records together. Throws `BufferUnusable` if that cannot be done; then none of them is there. */
  append(...records: object[]): void {
    this.#using(() => {
      if (this.#file < 0) throw new BufferUnusable(`the buffer ${this.path} is closed.`);
      const { size } = this.#fs.fstatSync(this.#file);
      // a line that a full disk cut off must not spoil the next
      const bytes = new TextEncoder().encode([...this.#unwritten, ...records].map((record) => `\n${JSON.stringify(record)}`).join(""));
      try {
        for (let at = 0; at < bytes.length; ) at += this.#fs.writeSync(this.#file, bytes, at);
      } catch (error) {
        this.#fs.ftruncateSync(this.#file, size);
        throw error;
      }
      this.#unwritten = [];
    });
  }

  /** Appends what became of earlier records; later, if it cannot be done now. */
  note(record: { n?: number; gone?: number[] }): void {
    this.stale += 1 + (record.gone?.length ?? 0);
    try {
      this.append(record);
    } catch {
      this.#unwritten.push(record);
    }
  }

  close(): void {
    if (this.#file < 0) return;
    this.#fs.closeSync(this.#file);
    // the next file that is opened has its number
    this.#file = -1;
    this.#fs.rmSync(`${this.path}.lock`, { force: true });
  }

  /** Takes a lock. Who replaces a stale one needs the lock of that one first, so that of several only one does. */
  #lock(lock = `${this.path}.lock`): void {
    // linked when it is written: nobody sees it empty
    const made = `${this.path}.${globalThis.crypto.randomUUID()}`;
    this.#fs.writeFileSync(made, `${process.pid} ${this.#startOf(process.pid)}`, { mode: 0o600 });
    try {
      while (this.#unless("EEXIST", () => this.#fs.linkSync(made, lock) ?? true) === undefined) {
        const words = this.#wordsOf(lock);
        if (words === undefined) continue;
        const [holder, since] = words.split(" ");
        if (this.#startOf(Number(holder)) === since) {
          throw new BufferUnusable(`the buffer ${this.path} is open in process ${holder}: ask that one, or stop it.`);
        }
        const next = `${lock}.${words.replace(" ", "-")}`;
        this.#lock(next);
        if (this.#wordsOf(lock) === words) return this.#fs.renameSync(next, lock);
        // another was faster
        this.#fs.rmSync(next);
      }
    } finally {
      this.#fs.rmSync(made);
    }
  }

  #wordsOf(lock: string): string | undefined {
    return this.#unless("ENOENT", () => this.#fs.readFileSync(lock, "utf8"));
  }

  /** What an act returns; undefined if it fails with this code. */
  #unless<T>(code: string, act: () => T): T | undefined {
    try {
      return act();
    } catch (error) {
      if ((error as any).code !== code) throw error;
      return undefined;
    }
  }

  /** When a process began, as the next of containers may have the same number; "" if there is none. */
  #startOf(pid: number): string {
    try {
      process.kill(pid, 0);
    } catch (error) {
      if ((error as any).code !== "EPERM") return "";
    }
    try {
      const fields = this.#fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ");
      return fields[0] === "Z" ? "" : fields[19]!;
    } catch {
      return "running";
    }
  }

  #using<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (error instanceof BufferUnusable) throw error;
      const told = `the buffer ${this.path} cannot be used: ${(error as Error).message}.`;
      throw new BufferUnusable(`${told} Make room on the disk, or give a file that may be written.`);
    }
  }
}
