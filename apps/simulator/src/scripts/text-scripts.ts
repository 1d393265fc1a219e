import { numberIn } from './arguments.ts';
import type { ModelScript } from './script.ts';
import { taskOf } from './turns.ts';

const text = (value: string): { type: 'text'; text: string } => ({ type: 'text', text: value });

/** Repeats the user's text. */
export const echoScript: ModelScript = ({ params }) => ({
  content: [text(taskOf(params).text || '(nothing)')],
  stop_reason: 'end_turn',
});

/** `fixed?text=…`: always answers the same text. */
export const fixedScript: ModelScript = (_request, args) => ({
  content: [text(args['text'] ?? 'ok')],
  stop_reason: 'end_turn',
});

const FILLER = 'All night long the batches run, and every morning they are done. ';

/** `hugeText?bytes=N`: a text of N bytes (default 1,000,000). */
export const hugeTextScript: ModelScript = (_request, args) => {
  const bytes = numberIn(args, 'bytes', 1_000_000);
  return {
    content: [text(FILLER.repeat(Math.ceil(bytes / FILLER.length)).slice(0, bytes))],
    stop_reason: 'end_turn',
  };
};

/** Characters that break naive line splitters and stores: line separators, emoji, a lone surrogate, NUL, controls. */
export const unicodeScript: ModelScript = () => ({
  content: [
    text(
      'separators:\u2028\u2029\u0085 emoji:😀👩‍👩‍👧‍👦 lone:\ud83d end nul:\u0000 controls:\u0001\u001b\u007f bom:\ufeff combining:e\u0301 rtl:\u202eabc quote:"\\ crlf:\r\n tab:\t',
    ),
  ],
  stop_reason: 'end_turn',
});

/** Ends the turn without content, as models do after text behind tool results. */
export const emptyEndTurnScript: ModelScript = () => ({
  content: [],
  stop_reason: 'end_turn',
  outputTokens: 2,
});

/** Stops at max_tokens inside a text. */
export const maxTokensTextScript: ModelScript = ({ params }) => ({
  content: [text('This answer was longer than the request allowed, so it stops in the middle of a sen')],
  stop_reason: 'max_tokens',
  outputTokens: params.max_tokens,
});

/** `stopSequence?sequence=…`: stops at a stop sequence. Default: the first of the request. */
export const stopSequenceScript: ModelScript = ({ params }, args) => {
  const sequences = params['stop_sequences'];
  const first = Array.isArray(sequences) && typeof sequences[0] === 'string' ? sequences[0] : 'STOP';
  return {
    content: [text('Everything up to the word. ')],
    stop_reason: 'stop_sequence',
    stop_sequence: args['sequence'] ?? first,
  };
};

/** Reaches the context window inside a text. */
export const contextExceededScript: ModelScript = () => ({
  content: [text('The context window is full, so this is where it en')],
  stop_reason: 'model_context_window_exceeded',
});

/** `refusal?category=cyber&mid=1`: refuses, before the first token or (mid) inside a text. */
export const refusalScript: ModelScript = (_request, args) => ({
  content: args['mid'] === undefined ? [] : [text('Certainly. First you need')],
  stop_reason: 'refusal',
  stop_details: {
    type: 'refusal',
    category: args['category'] ?? null,
    explanation: args['explanation'] ?? null,
  },
});

/** `unknownStopReason?reason=…`: ends with an unknown stop reason. */
export const unknownStopReasonScript: ModelScript = (_request, args) => ({
  content: [text('Something new happened.')],
  stop_reason: args['reason'] ?? 'quantum_decoherence',
});

/** `unknownBlockType?type=…`: puts a block of an unknown type between two texts. */
export const unknownBlockTypeScript: ModelScript = (_request, args) => ({
  content: [
    text('Before.'),
    { type: args['type'] ?? 'hologram', payload: { z: 1, a: [1.5, null, 'é'] }, opaque: 'c2ltdWxhdG9y' },
    text('After.'),
  ],
  stop_reason: 'end_turn',
});

/** `errored?type=overloaded_error&message=…`: answers with an error instead of a message. */
export const erroredScript: ModelScript = (_request, args) => ({
  content: [],
  stop_reason: 'end_turn',
  error: { type: args['type'] ?? 'api_error', message: args['message'] ?? 'Internal server error' },
});
