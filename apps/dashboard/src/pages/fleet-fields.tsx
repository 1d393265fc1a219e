import { FormField } from '../parts/form-field.tsx';
import type { BatchFieldsProps } from './batch-fields.tsx';
import { BlocksField, InstructionField } from './memory-fields.tsx';
import { errorAt } from './schedule-draft.ts';

/** Fields of a batch with a run for each chosen agent. */
export function FleetFields(props: BatchFieldsProps) {
  const { draft, set, error } = props;
  return (
    <>
      <div className="fields">
        <FormField
          label="Agents with any of these tags"
          error={errorAt(error, '/agents/tags') ?? errorAt(error, '/agents')}
          hint="Separated by spaces."
        >
          {(ties) => (
            <input
              {...ties}
              className="input"
              value={draft.agentTags}
              onChange={({ target }) => set({ agentTags: target.value })}
            />
          )}
        </FormField>
        <FormField
          label="Name contains"
          error={errorAt(error, '/agents/query_text')}
          hint="Give tags, a name, or both."
        >
          {(ties) => (
            <input
              {...ties}
              className="input"
              value={draft.agentName}
              onChange={({ target }) => set({ agentName: target.value })}
            />
          )}
        </FormField>
        <FormField label="Work">
          {(ties) => (
            <select
              {...ties}
              className="input"
              value={draft.kind}
              onChange={({ target }) =>
                set({ kind: target.value === 'memory_rewrite' ? 'memory_rewrite' : 'fleet' })
              }
            >
              <option value="fleet">a message to each</option>
              <option value="memory_rewrite">each rewrites its memory</option>
            </select>
          )}
        </FormField>
      </div>
      {draft.kind === 'fleet' ? <MessageField {...props} /> : <MemoryFields {...props} />}
    </>
  );
}

function MessageField({ draft, set, error }: BatchFieldsProps) {
  return (
    <FormField
      label="Message"
      error={errorAt(error, '/input')}
      hint="May hold {{ agent.name }}, {{ blocks.summary }}, {{ last_run }}."
    >
      {(ties) => (
        <textarea
          {...ties}
          className="input"
          required
          placeholder="Read your notes about {{ agent.name }} and say what is open."
          value={draft.input}
          onChange={({ target }) => set({ input: target.value })}
        />
      )}
    </FormField>
  );
}

function MemoryFields({ draft, set, error }: BatchFieldsProps) {
  return (
    <>
      <BlocksField
        value={draft.blocks}
        error={errorAt(error, '/blocks')}
        onChange={(blocks) => set({ blocks })}
      />
      <InstructionField
        value={draft.instruction}
        error={errorAt(error, '/instruction')}
        onChange={(instruction) => set({ instruction })}
      />
    </>
  );
}
