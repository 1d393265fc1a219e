/** What requests must mind about a model. */
export interface ModelTraits {
  /** It takes `tool_choice` `any` and `tool`; others answer with 400. */
  readonly takes_forced_choice: boolean;
  /** Its thinking blocks are good after what they were made after alone: system prompt, tools and earlier messages. */
  readonly binds_thinking: boolean;
  /** It takes `thinking` of the type `enabled`, with a budget. */
  readonly takes_thinking_budget: boolean;
  /** It takes `thinking` of the type `adaptive`. */
  readonly takes_adaptive_thinking: boolean;
  /** It thinks before every answer, of the tokens that the answer may have, and cannot be kept from it. */
  readonly thinks_always: boolean;
  /** It takes an `effort`; others answer with 400. */
  readonly takes_effort: boolean;
}

/** Models before the generation of Opus 5.5 and Fable 5.1, by the provider's names, perhaps with a date. */
const EARLIER =
  /^claude-(?:haiku-4-5|sonnet-4-5|sonnet-4-6|sonnet-5|opus-4-[5-8]|opus-5|fable-5|mythos-5)(?:-\d{8})?$/;
/** Models that think within a budget; the later ones of them also without. */
const BUDGETED = /^claude-(?:haiku-4-5|sonnet-4-5|sonnet-4-6|opus-4-[56])(?:-\d{8})?$/;
const ONLY_BUDGETED = /^claude-(?:haiku|sonnet|opus)-4-5(?:-\d{8})?$/;
const WITHOUT_EFFORT = /^claude-(?:haiku|sonnet)-4-5(?:-\d{8})?$/;
/** Of that generation, but it can be forced: thinking can be turned off. */
const FORCEABLE = /^claude-haiku-5-5(?:-\d{8})?$/;

/** The traits of a model. One that is not known here is treated as one of the latest generation, the stricter one. */
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
  };
}
