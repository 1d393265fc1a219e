/** One request to the API port, as it went. */
export interface JournalEntry {
  readonly seq: number;
  /** RFC 3339, on the simulator's clock. */
  readonly at: string;
  readonly op: string;
  /** The number of this request among those of its operation, from 1. */
  readonly op_seq: number;
  readonly method: string;
  readonly path: string;
  /** Without credentials. */
  readonly headers: Readonly<Record<string, string>>;
  /** What the official client says of its own retries; null from other clients. */
  readonly retry_count: number | null;
  readonly request_id: string;
  request_bytes: number;
  /** Null while it is being handled, or when no status line was sent. */
  status: number | null;
  response_bytes: number;
  outcome: 'pending' | 'answered' | 'dropped' | 'hung' | 'cut' | 'client_aborted';
  /** The rule that acted, if one did. */
  rule_id: string | null;
  /** The batch that this request created or changed, whatever the client was told. */
  committed: string | null;
  error_type: string | null;
}

/** The last requests, oldest first; a fixed number of them is kept. */
export interface Journal {
  open(entry: Omit<JournalEntry, 'seq'>): JournalEntry;
  /** The entries with a greater `seq`. */
  since(seq: number, limit: number): { entries: JournalEntry[]; last_seq: number; dropped: number };
}

const ENTRIES_KEPT = 20_000;
const SECRET_HEADERS = new Set(['authorization', 'x-api-key', 'cookie', 'proxy-authorization']);

/** The headers of a request that may be kept. */
export function journalHeaders(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !SECRET_HEADERS.has(name)) kept[name] = String(value);
  }
  return kept;
}

/** An empty journal. */
export function createJournal(): Journal {
  let entries: JournalEntry[] = [];
  let nextSeq = 1;
  let dropped = 0;
  return {
    open(fields) {
      const entry: JournalEntry = { seq: nextSeq++, ...fields };
      entries.push(entry);
      if (entries.length > ENTRIES_KEPT * 1.2) {
        dropped += entries.length - ENTRIES_KEPT;
        entries = entries.slice(-ENTRIES_KEPT);
      }
      return entry;
    },
    since(seq, limit) {
      const found = entries.filter((entry) => entry.seq > seq).slice(0, limit);
      return { entries: found, last_seq: found.at(-1)?.seq ?? Math.max(seq, 0), dropped };
    },
  };
}
