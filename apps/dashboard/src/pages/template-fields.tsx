import { FormField } from '../parts/form-field.tsx';
import { AgentPicker } from './agent-picker.tsx';
import type { BatchFieldsProps } from './batch-fields.tsx';
import { errorAt } from './schedule-draft.ts';

const INPUTS_EXAMPLE = `custom_id,customer,text
ticket-1,Ann,My invoice is wrong.
ticket-2,Ben,"I moved, and my key is lost."`;

/** Fields of a batch that asks one agent the same text about many inputs. */
export function TemplateFields({ draft, set, error, inputsError }: BatchFieldsProps) {
  return (
    <>
      <AgentPicker
        value={draft.agentId}
        onChange={(agentId) => set({ agentId })}
        error={errorAt(error, '/template/agent_id')}
      />
      <FormField
        label="Text"
        error={errorAt(error, '/template/input')}
        hint="A variable stands in double braces, as {{ customer }}."
      >
        {(ties) => (
          <textarea
            {...ties}
            className="input"
            required
            placeholder={'Which team should answer {{ customer }}?\n\n{{ text }}'}
            value={draft.template}
            onChange={({ target }) => set({ template: target.value })}
          />
        )}
      </FormField>
      <FormField
        label="Inputs"
        error={inputsError ?? errorAt(error, '/inputs')}
        hint="CSV with the names of the variables in its first line, or a JSON object on each line. One run per input."
      >
        {(ties) => (
          <textarea
            {...ties}
            className="input inputs"
            required
            spellCheck={false}
            placeholder={INPUTS_EXAMPLE}
            value={draft.inputs}
            onChange={({ target }) => set({ inputs: target.value })}
          />
        )}
      </FormField>
    </>
  );
}
