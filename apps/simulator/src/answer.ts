import { drawFrom, idFrom } from './draws.ts';
import { findModel } from './models.ts';
import type { Model } from './models.ts';
import { directiveOf } from './scripts/directive.ts';
import type { Directive } from './scripts/directive.ts';
import { enforceSchemas } from './scripts/enforce.ts';
import { SCRIPTS } from './scripts/registry.ts';
import type { ContentBlock, MessageParams } from './scripts/script.ts';
import { addMessage, createConversationHash, isThinking, signatureOf, signThinking } from './signature.ts';
import { outputTokensOf, usageJson } from './usage.ts';
import type { Usage } from './usage.ts';

/** A message without its usage, which depends on the cache. */
export interface AnsweredMessage {
  readonly kind: 'message';
  /** The message as JSON, up to the value of `usage`, its last member. */
  readonly head: string;
  readonly model: Model;
  readonly output_tokens: number;
  readonly web_searches: number;
  /** False for a refusal before the first token; everything else is billed. */
  readonly billable: boolean;
}

/** The answer to one request. */
export type Answer =
  AnsweredMessage | { readonly kind: 'error'; readonly type: string; readonly message: string };

/** The inputs of an answer besides the request. */
export interface AnswerSettings {
  readonly seed: string;
  readonly defaultScript: Directive;
}

/** A request that passed validation. */
export interface ValidRequest {
  readonly params: MessageParams;
  readonly contentHash: string;
  /** Input of the message id besides the content. */
  readonly identity: string;
  /** The script of a rule, which overrides the request's directive. */
  readonly script?: Directive | undefined;
}

/** Merges `block` over `defaults`, with the members in the order of `defaults`. */
const withDefaults = (defaults: ContentBlock, block: ContentBlock): ContentBlock =>
  Object.assign(defaults, block);

/** Returns the signature of the last thinking block in a request. */
function lastSignature({ messages }: MessageParams): string | undefined {
  const thoughts = messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.filter(isThinking),
  );
  const last = thoughts.at(-1);
  return last === undefined ? undefined : signatureOf(last);
}

/** Adds the members that scripts omit: ids, signatures, and defaults. */
function complete(content: readonly ContentBlock[], request: ValidRequest, seed: string): ContentBlock[] {
  const { contentHash, params } = request;
  const conversation = content.some(isThinking) ? createConversationHash(params) : undefined;
  if (conversation !== undefined) for (const message of params.messages) addMessage(conversation, message);
  let previous = conversation === undefined ? undefined : lastSignature(params);
  let serverToolId = '';
  return content.map((block, index) => {
    let done: ContentBlock = block;
    const { type } = block;
    if (type === 'text') done = withDefaults({ type, text: '', citations: null }, block);
    else if (type === 'tool_use') {
      const id = idFrom('toolu_01', 22, seed, contentHash, index);
      done = withDefaults({ type, id, name: '', input: {}, caller: { type: 'direct' } }, block);
    } else if (type === 'server_tool_use') {
      serverToolId = idFrom('srvtoolu_01', 22, seed, contentHash, index);
      done = withDefaults({ type, id: serverToolId, name: '', input: {}, caller: { type: 'direct' } }, block);
    } else if (type.endsWith('_tool_result') && block['tool_use_id'] === undefined) {
      done = withDefaults({ type, tool_use_id: serverToolId }, block);
    } else if (conversation !== undefined && isThinking(block)) {
      const binding = { model: params.model, conversation: conversation.value(), previous };
      const signature = signThinking(seed, binding, block);
      done = { ...block, ...(type === 'thinking' ? { signature } : { data: signature }) };
      previous = signature;
    }
    conversation?.add('assistant', done);
    return done;
  });
}

/** Answers a request by its script. A pure function of the seed, the settings and the request's content. */
export function answerRequest(request: ValidRequest, settings: AnswerSettings): Answer {
  const { params, contentHash } = request;
  const { seed } = settings;
  const model = findModel(params.model);
  if (model === undefined)
    return { kind: 'error', type: 'not_found_error', message: `model: ${params.model}` };
  const { script: name, args } = request.script ?? directiveOf(params) ?? settings.defaultScript;
  const script = SCRIPTS.get(name);
  if (script === undefined) {
    const known = [...SCRIPTS.keys()].join(', ');
    return {
      kind: 'error',
      type: 'invalid_request_error',
      message: `sim: there is no script "${name}"; there are ${known}`,
    };
  }
  const draw = (purpose: string): number => drawFrom(seed, contentHash, purpose);
  const reply = enforceSchemas(script({ params, seed, draw }, args), { params, draw });
  if (reply.error !== undefined) return { kind: 'error', ...reply.error };
  const content = complete(reply.content, request, seed);
  const contentJson = JSON.stringify(content);
  const id = idFrom('msg_01', 22, seed, contentHash, request.identity);
  return {
    kind: 'message',
    head:
      `{"id":"${id}","type":"message","role":"assistant","model":${JSON.stringify(params.model)},"content":${contentJson}` +
      `,"stop_reason":${JSON.stringify(reply.stop_reason)},"stop_sequence":${JSON.stringify(reply.stop_sequence ?? null)}` +
      `,"stop_details":${JSON.stringify(reply.stop_details ?? null)},"container":null,"diagnostics":null,"usage":`,
    model,
    output_tokens: reply.outputTokens ?? outputTokensOf(contentJson),
    web_searches: content.filter(
      (block) => block.type === 'server_tool_use' && block['name'] === 'web_search',
    ).length,
    billable: !(reply.stop_reason === 'refusal' && content.length === 0),
  };
}

/** Formats a message as JSON. */
export function messageJson(
  { head, web_searches }: Pick<AnsweredMessage, 'head' | 'web_searches'>,
  usage: Usage,
  serviceTier: 'batch' | 'standard',
): string {
  return `${head}${usageJson(usage, serviceTier, web_searches)}}`;
}
