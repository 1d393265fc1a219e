/** A value as `JSON.parse` returns it. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };
export type JsonObject = { [key: string]: JsonValue };

/** One block of message content, known or unknown to us. */
export type ContentBlock = { type: string } & JsonObject;

/** One message of a request, as parsed. */
export type Message = { role: string; content: string | ContentBlock[] } & JsonObject;

/** The definition of one tool of a request, as parsed. */
export type ToolDefinition = { name: string } & JsonObject;

/**
 * The `params` of one request, as parsed. Only the members that scripts look at are named; the rest is reachable by its
 * key. A script sees params only after they passed validation, so the named members have these types.
 */
export type MessageParams = {
  model: string;
  max_tokens: number;
  messages: Message[];
  system?: string | ContentBlock[];
  tools?: ToolDefinition[];
  [key: string]: unknown;
};

/** What a script may know. Everything here is a pure function of the seed and of the content of the request. */
export interface ScriptRequest {
  readonly params: MessageParams;
  /** The seed of the simulator. */
  readonly seed: string;
  /** A number in [0, 1) that depends on the seed, the content of `params` and `purpose`, and on nothing else. */
  readonly draw: (purpose: string) => number;
}

/** What a script answers. */
export interface ScriptReply {
  /** A `tool_use` block without an `id` gets one that is a pure function of seed, content and position. */
  readonly content: ContentBlock[];
  readonly stop_reason: string;
  /** Default null. */
  readonly stop_sequence?: string | null;
  /** Default null. */
  readonly stop_details?: JsonValue;
  /** Tokens billed as output; default: the size of `content` in bytes divided by four. */
  readonly outputTokens?: number;
  /** When present the request is answered with this error instead of a message, and is not billed. */
  readonly error?: { readonly type: string; readonly message: string };
}

/**
 * A model: a stateless function of one request, so that a request that is sent again is answered in the same way.
 * `args` are those of the directive that selected the script (`sim:<script>?key=value&…`).
 */
export type ModelScript = (request: ScriptRequest, args: Readonly<Record<string, string>>) => ScriptReply;
