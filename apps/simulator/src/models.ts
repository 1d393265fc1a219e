import table from './models.json' with { type: 'json' };

/** USD per million tokens. */
export interface Prices {
  readonly input: number;
  readonly write_5m: number;
  readonly write_1h: number;
  readonly read: number;
  readonly output: number;
}

/** The properties of one model. */
export interface Model extends Prices {
  readonly id: string;
  readonly display_name: string;
  readonly line: string;
  readonly created_at: string;
  readonly context_window: number;
  readonly max_output: number;
  /** The generation that decides the request rules. */
  readonly generation: '4.5' | '4.6' | '4.7' | '5' | '5.5';
  /** True when thinking blocks are bound to the system prompt, tools and messages before them. */
  readonly binds_thinking?: boolean;
  /** True when `messages` may hold the role `system`. */
  readonly system_messages?: boolean;
  /** Set for models whose thinking can only be reduced, not disabled. */
  readonly thinking_disabled_as?: string;
  readonly prefill: boolean;
  /** True when the beta for 300,000 output tokens applies. */
  readonly extended_output: boolean;
  readonly min_cacheable_tokens: number;
  readonly long_prompt?: Prices & { readonly above_tokens: number };
}

/** All models, newest first. */
export const MODELS: readonly Model[] = table.models as Model[];

const byId = new Map(MODELS.map((model) => [model.id, model]));

/** Finds a model by its id; a dated id (`…-20251001`) means the undated model. */
export function findModel(id: string): Model | undefined {
  return byId.get(id) ?? byId.get(id.replace(/-20\d{6}$/, ''));
}

/** True when `output_config` may hold an effort. */
export function takesEffort({ generation, line }: Model): boolean {
  return generation !== '4.5' || line === 'opus';
}

const support = (supported: boolean): { supported: boolean } => ({ supported });

/** Converts a model to its wire shape. */
export function modelInfo(model: Model, id: string = model.id): Record<string, unknown> {
  const adaptive = model.generation !== '4.5';
  const enabled = model.generation === '4.5' || model.generation === '4.6';
  return {
    type: 'model',
    id,
    display_name: model.display_name,
    created_at: model.created_at,
    deprecated_at: null,
    retires_at: null,
    lifecycle: 'active',
    line: model.line,
    max_input_tokens: model.context_window,
    max_tokens: model.max_output,
    capabilities: {
      batch: support(true),
      citations: support(true),
      code_execution: support(true),
      context_management: { supported: false },
      effort: support(takesEffort(model)),
      image_input: support(true),
      pdf_input: support(true),
      server_tools: { supported: true, code_execution: support(true), web_search: support(true) },
      structured_outputs: support(true),
      thinking: {
        supported: true,
        types: {
          adaptive: support(adaptive),
          between_tools: support(model.thinking_disabled_as === 'between_tools'),
          disabled: support(model.generation !== '5.5'),
          enabled: support(enabled),
        },
      },
    },
  };
}
