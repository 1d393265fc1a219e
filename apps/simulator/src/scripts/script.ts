/** A value as `JSON.parse` returns it. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };
export type JsonObject = { [key: string]: JsonValue };

/** One block of message content, of any type. */
export type ContentBlock = { type: string } & JsonObject;

/** One message of a request, as parsed. */
export type Message = { role: string; content: string | ContentBlock[] } & JsonObject;

/** The definition of one tool of a request, as parsed. */
export type ToolDefinition = { name: string } & JsonObject;

/**
 * The parsed `params` of one request. Only the members that scripts use are named; others are reachable by key.
 * Scripts get params after validation, so the named members have these types.
 */
export type MessageParams = {
  model: string;
  max_tokens: number;
  messages: Message[];
  system?: string | ContentBlock[];
  tools?: ToolDefinition[];
  [key: string]: unknown;
};

/** The inputs of a script, all pure functions of the seed and the request's content. */
export interface ScriptRequest {
  readonly params: MessageParams;
  /** The seed of the simulator. */
  readonly seed: string;
  /** Draws a number in [0, 1) from the seed, the content of `params` and `purpose` alone. */
  readonly draw: (purpose: string) => number;
}

/** The answer of a script. */
export interface ScriptReply {
  /** A `tool_use` block without an `id` gets one derived from seed, content and position. */
  readonly content: ContentBlock[];
  readonly stop_reason: string;
  /** Default null. */
  readonly stop_sequence?: string | null;
  /** Default null. */
  readonly stop_details?: JsonValue;
  /** Tokens billed as output. Default: the bytes of `content` divided by four. */
  readonly outputTokens?: number;
  /** Replaces the message by this error, which is not billed. */
  readonly error?: { readonly type: string; readonly message: string };
}

/**
 * A scripted model: a stateless function of one request, so that a repeated request gets the same answer.
 * `args` come from the directive that selected the script (`sim:<script>?key=value&…`).
 */
export type ModelScript = (request: ScriptRequest, args: Readonly<Record<string, string>>) => ScriptReply;
