import { FormField } from '../parts/form-field.tsx';
import type { BatchDraft } from './batch-draft.ts';
import { errorAt } from './schedule-draft.ts';

export interface BatchFieldsProps {
  readonly draft: BatchDraft;
  readonly set: (changes: Partial<BatchDraft>) => void;
  /** What the API said of the batch; null if nothing. */
  readonly error: unknown;
  /** Why the pasted inputs cannot be read. */
  readonly inputsError?: string | undefined;
}

interface TextProps extends BatchFieldsProps {
  readonly field: 'name' | 'tags' | 'cap' | 'maxSteps' | 'pilotRuns';
  readonly label: string;
  readonly path: string;
  readonly hint?: string;
  readonly placeholder?: string;
  /** Smallest number and its steps; a text without it. */
  readonly number?: { readonly min: string; readonly step: string };
}

/** Fields that every batch has: name, tags, cap, steps, review, pilot. */
export function BatchFields(props: BatchFieldsProps) {
  const { draft, set } = props;
  const stepsPath = draft.way === 'template' ? '/template/max_steps' : '/max_steps';
  return (
    <div className="fields">
      <Text {...props} field="name" label="Name" path="/name" />
      <Text {...props} field="tags" label="Tags" path="/tags" hint="Separated by spaces." />
      <Text
        {...props}
        field="cap"
        label="Most dollars"
        path="/max_cost_usd"
        placeholder="no cap"
        hint="At the cap the batch pauses."
        number={{ min: '0', step: 'any' }}
      />
      {draft.way !== 'file' && (
        <Text
          {...props}
          field="maxSteps"
          label="Most steps of a run"
          path={stepsPath}
          placeholder="10"
          number={{ min: '1', step: '1' }}
        />
      )}
      <Text
        {...props}
        field="pilotRuns"
        label="Pilot"
        path="/pilot"
        placeholder="none"
        hint="So many runs go first; the batch then waits for you."
        number={{ min: '1', step: '1' }}
      />
      <FormField label="Memory changes">
        {(ties) => (
          <select
            {...ties}
            className="input"
            value={draft.isReviewed ? 'review' : 'auto'}
            onChange={({ target }) => set({ isReviewed: target.value === 'review' })}
          >
            <option value="auto">come into force at once</option>
            <option value="review">wait for a review</option>
          </select>
        )}
      </FormField>
    </div>
  );
}

function Text({ draft, set, error, field, label, path, hint, placeholder, number }: TextProps) {
  return (
    <FormField label={label} error={errorAt(error, path)} hint={hint}>
      {(ties) => (
        <input
          {...ties}
          {...(number !== undefined && { ...number, type: 'number' })}
          className="input"
          placeholder={placeholder}
          value={draft[field]}
          onChange={({ target }) => set({ [field]: target.value })}
        />
      )}
    </FormField>
  );
}
