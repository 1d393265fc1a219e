import { useQuery } from '@tanstack/react-query';
import { nightshift } from '../api/client.ts';
import { readPage } from '../api/pages-of.ts';
import { FormField } from '../parts/form-field.tsx';
import { BlocksField, InstructionField } from './memory-fields.tsx';
import { errorAt, type ScheduleDraft } from './schedule-draft.ts';

interface RewriteFieldsProps {
  readonly draft: ScheduleDraft;
  readonly set: (changes: Partial<ScheduleDraft>) => void;
  readonly error: unknown;
}

/** Fields of a rewrite: whose memories, which blocks, how, and at what cost. */
export function RewriteFields({ draft, set, error }: RewriteFieldsProps) {
  return (
    <>
      <div className="fields">
        <TagsField draft={draft} set={set} error={error} />
        <BlocksField
          value={draft.blocks}
          error={errorAt(error, '/body/blocks')}
          onChange={(blocks) => set({ blocks })}
        />
      </div>
      <InstructionField
        value={draft.instruction}
        error={errorAt(error, '/body/instruction')}
        onChange={(instruction) => set({ instruction })}
      />
      <div className="fields">
        <FormField label="Most dollars a night" error={errorAt(error, '/body/max_cost_usd')}>
          {(ties) => (
            <input
              {...ties}
              className="input"
              type="number"
              min="0"
              step="any"
              placeholder="no cap"
              value={draft.cap}
              onChange={({ target }) => set({ cap: target.value })}
            />
          )}
        </FormField>
        <FormField label="Changes">
          {(ties) => (
            <select
              {...ties}
              className="input"
              value={draft.isReviewed ? 'review' : 'auto'}
              onChange={({ target }) => set({ isReviewed: target.value === 'review' })}
            >
              <option value="review">wait for a review</option>
              <option value="auto">come into force at once</option>
            </select>
          )}
        </FormField>
      </div>
    </>
  );
}

function TagsField({ draft, set, error }: RewriteFieldsProps) {
  const tags = useQuery({
    queryKey: ['tags'],
    queryFn: () => readPage(nightshift.admin.tags()),
    staleTime: 60_000,
  });
  return (
    <FormField
      label="Agents with any of these tags"
      error={errorAt(error, '/body/agents')}
      hint={
        tags.data !== undefined && tags.data.length > 0 && `There are: ${tags.data.slice(0, 12).join(', ')}`
      }
    >
      {(ties) => (
        <input
          {...ties}
          className="input"
          required
          value={draft.tags}
          onChange={({ target }) => set({ tags: target.value })}
        />
      )}
    </FormField>
  );
}
