/**
 * Every error of the client, named as in Python.
 *
 * BackscrollError
 * ├── Unavailable      not now: no answer, or one that asks to try again later
 * │   ├── NoAnswer         nobody answers there, or not in time
 * │   └── ApiFailed        the API has a defect, or what answers is no Backscroll
 * ├── KeyRefused       not with this API key: it is wrong, expired or revoked
 * │   └── Forbidden        it may not do this
 * ├── Refused          a value is wrong; names the field and what is allowed
 * │   └── NotFound         there is no such chat, memory …
 * └── BufferUnusable   the buffer is full, cannot be written, or is open in another process
 */
export class BackscrollError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** The API does not take it now; it may in `retryAfter` seconds, if that is known. */
export class Unavailable extends BackscrollError {
  constructor(
    message: string,
    readonly retryAfter?: number,
  ) {
    super(message);
  }
}
export class NoAnswer extends Unavailable {}
export class ApiFailed extends Unavailable {}
export class KeyRefused extends BackscrollError {}
export class Forbidden extends KeyRefused {}

/** A value is wrong; `field` is its name, if it is one field's. */
export class Refused extends BackscrollError {
  constructor(
    message: string,
    readonly field = "",
  ) {
    super(message);
  }
}
export class NotFound extends Refused {}
export class BufferUnusable extends BackscrollError {}
