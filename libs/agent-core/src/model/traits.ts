/** Traits of a model that requests must respect. */
export interface ModelTraits {
  /** Accepts `tool_choice` `any` and `tool`; other models answer with 400. */
  readonly takes_forced_choice: boolean;
  /** Accepts thinking blocks only after their original prefix: system prompt, tools and earlier messages. */
  readonly binds_thinking: boolean;
  /** Accepts `thinking` of the type `enabled`, with a budget. */
  readonly takes_thinking_budget: boolean;
  /** Accepts `thinking` of the type `adaptive`. */
  readonly takes_adaptive_thinking: boolean;
  /** Thinks before every answer, within `max_tokens`; this cannot be turned off. */
  readonly thinks_always: boolean;
  /** Accepts an `effort`; other models answer with 400. */
  readonly takes_effort: boolean;
  /** Smallest prompt prefix that its cache keeps. Unit: tokens. */
  readonly cacheable_tokens_min: number;
  /** Enforces schemas: `strict` of tools, and an output format. */
  readonly takes_strict: boolean;
}

/** Models before the generation of Opus 5.5 and Fable 5.1, by the provider's names, perhaps with a date. */
const EARLIER =
  /^claude-(?:haiku-4-5|sonnet-4-5|sonnet-4-6|sonnet-5|opus-4-[5-8]|opus-5|fable-5|mythos-5)(?:-\d{8})?$/;
/** Models that think within a budget; the later of them also think without a budget. */
const BUDGETED = /^claude-(?:haiku-4-5|sonnet-4-5|sonnet-4-6|opus-4-[56])(?:-\d{8})?$/;
const ONLY_BUDGETED = /^claude-(?:haiku|sonnet|opus)-4-5(?:-\d{8})?$/;
const WITHOUT_EFFORT = /^claude-(?:haiku|sonnet)-4-5(?:-\d{8})?$/;
/** Models before Opus 4.1 and the generation 4.5. */
const WITHOUT_STRICT = /^claude-(?:[23]\b|instant|(?:sonnet|opus)-4(?:-0)?(?:-\d{8})?$)/;
/** Models of that generation with thinking that can be turned off, so that a call can be forced. */
const FORCEABLE = /^claude-haiku-5-5(?:-\d{8})?$/;

/** Smallest cached prefixes by model, after the provider's documents of autumn 2026; 1,024 tokens for all others. */
const CACHEABLE_TOKENS_MIN: readonly (readonly [RegExp, number])[] = [
  [/^claude-(?:opus-5|fable-5|mythos-5)/, 512],
  [/^claude-opus-4-7/, 2_048],
  [/^claude-(?:opus-4-[56]|haiku-4-5)/, 4_096],
];

/** Returns the traits of a model. An unknown model counts as the latest generation, which is the strictest. */
export function modelTraits(modelName: string): ModelTraits {
  const isEarlier = EARLIER.test(modelName);
  const isForceable = isEarlier || FORCEABLE.test(modelName);
  return {
    takes_forced_choice: isForceable,
    binds_thinking: !isEarlier,
    takes_thinking_budget: BUDGETED.test(modelName),
    takes_adaptive_thinking: !ONLY_BUDGETED.test(modelName),
    thinks_always: !isForceable,
    takes_effort: !WITHOUT_EFFORT.test(modelName),
    cacheable_tokens_min: CACHEABLE_TOKENS_MIN.find(([names]) => names.test(modelName))?.[1] ?? 1_024,
    takes_strict: !WITHOUT_STRICT.test(modelName),
  };
}
