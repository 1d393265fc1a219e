import type { TargetPolicy } from './url-guard.ts';

export interface EgressRequest {
  /** In capitals: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS. */
  readonly method: string;
  /** Absolute URL. */
  readonly url: string;
  /** None of the headers that frame or route a request; those are set by the client. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
}

export interface EgressOptions extends TargetPolicy {
  /** Redirects that are followed. 0: a redirect is the answer. */
  readonly redirects_max: number;
  /** Longest body of an answer; a longer one ends in `too_large`. Unit: bytes. */
  readonly answer_bytes_max: number;
  /** Timeout of the whole exchange, with redirects and body. */
  readonly timeout_ms: number;
  /** Ends the exchange when it fires. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Reuses connections. A reused connection may break without a fault of the server, so requests that must not be repeated
   * take a new one. Default: false.
   */
  readonly keep_alive?: boolean | undefined;
}

export interface EgressAnswer {
  readonly status: number;
  /** URL that answered, after redirects. */
  readonly url: string;
  /** Names in lower case; repeated headers are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body, within the limits; read it once. Throws: EgressError. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Drops the rest of the body, and the connection. */
  close(): void;
}
