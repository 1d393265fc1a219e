import { isApiError } from '@nightshift/client';
import type { UseMutationResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ErrorNotice } from '../parts/notices.tsx';
import { FormField } from '../parts/form-field.tsx';
import { MatchingAgents } from './matching-agents.tsx';
import { RulePreview } from './rule-preview.tsx';
import { RewriteFields } from './rewrite-fields.tsx';
import { errorAt, type ScheduleDraft } from './schedule-draft.ts';

interface ScheduleFormProps {
  readonly draft: ScheduleDraft;
  readonly onChange: (draft: ScheduleDraft) => void;
  readonly save: Pick<UseMutationResult, 'error' | 'isPending'>;
  readonly onSave: () => void;
  /** Name of the button that saves. */
  readonly action: string;
  /** Buttons beside it. */
  readonly children?: ReactNode;
}

const ZONES = Intl.supportedValuesOf('timeZone');

/** The form of a schedule: when, and what it submits. What the API refuses is said at its field. */
export function ScheduleForm({ draft, onChange, save, onSave, action, children }: ScheduleFormProps) {
  const set = (changes: Partial<ScheduleDraft>): void => onChange({ ...draft, ...changes });
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault();
        onSave();
      }}
    >
      <When draft={draft} set={set} error={save.error} />
      <fieldset className="card">
        <legend>What it submits</legend>
        <div className="row" role="radiogroup" aria-label="What it submits">
          {(['rewrite', 'json'] as const).map((kind) => (
            <label key={kind}>
              <input type="radio" name="kind" checked={draft.kind === kind} onChange={() => set({ kind })} />{' '}
              {kind === 'rewrite' ? 'Rewrite memories' : 'Any batch, as JSON'}
            </label>
          ))}
        </div>
        {draft.kind === 'rewrite' ? (
          <RewriteFields draft={draft} set={set} error={save.error} />
        ) : (
          <FormField
            label="Body"
            error={errorAt(save.error, '/body')}
            hint="As in POST /v1/messages/batches."
          >
            {(ties) => (
              <textarea
                {...ties}
                className="input"
                rows={14}
                spellCheck={false}
                value={draft.json}
                onChange={({ target }) => set({ json: target.value })}
              />
            )}
          </FormField>
        )}
        <MatchingAgents draft={draft} />
      </fieldset>
      {save.error !== null && !isSaidAtFields(save.error, draft) && <ErrorNotice error={save.error} />}
      <div className="row">
        <button className="button button-main" disabled={save.isPending}>
          {action}
        </button>
        {children}
      </div>
    </form>
  );
}

/** A change of the draft. */
export type SetDraft = (changes: Partial<ScheduleDraft>) => void;

interface FieldsProps {
  readonly draft: ScheduleDraft;
  readonly set: SetDraft;
  readonly error: unknown;
}

function When({ draft, set, error }: FieldsProps) {
  return (
    <fieldset className="card">
      <legend>When</legend>
      <FormField label="Name" error={errorAt(error, '/name')}>
        {(ties) => (
          <input
            {...ties}
            className="input"
            required
            value={draft.name}
            onChange={({ target }) => set({ name: target.value })}
          />
        )}
      </FormField>
      <div className="fields">
        <FormField
          label="Rule"
          error={errorAt(error, '/cron')}
          hint="Minute, hour, day, month, weekday: 0 2 * * 1-5"
        >
          {(ties) => (
            <input
              {...ties}
              className="input mono"
              required
              value={draft.cron}
              onChange={({ target }) => set({ cron: target.value })}
            />
          )}
        </FormField>
        <FormField label="Time zone" error={errorAt(error, '/time_zone')}>
          {(ties) => (
            <>
              <input
                {...ties}
                className="input"
                required
                list="zones"
                value={draft.timeZone}
                onChange={({ target }) => set({ timeZone: target.value })}
              />
              <datalist id="zones">
                {ZONES.map((zone) => (
                  <option key={zone} value={zone} />
                ))}
              </datalist>
            </>
          )}
        </FormField>
      </div>
      <RulePreview cron={draft.cron} timeZone={draft.timeZone} />
    </fieldset>
  );
}

const FIELDS = ['/name', '/cron', '/time_zone'];
const REWRITE_FIELDS = ['/body/agents', '/body/blocks', '/body/instruction', '/body/max_cost_usd'];

/** Tells whether each part of an error stands at a field that is shown. */
function isSaidAtFields(error: unknown, { kind }: ScheduleDraft): boolean {
  if (error instanceof SyntaxError) return kind === 'json';
  if (!isApiError(error) || error.errors.length === 0) return false;
  const shown = [...FIELDS, ...(kind === 'json' ? ['/body'] : REWRITE_FIELDS)];
  return error.errors.every(({ path }) =>
    shown.some((field) => path === field || path.startsWith(`${field}/`)),
  );
}
