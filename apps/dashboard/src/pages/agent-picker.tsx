import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { nightshift } from '../api/client.ts';
import { readPage } from '../api/pages-of.ts';
import { FormField } from '../parts/form-field.tsx';
import { useSettled } from '../parts/use-settled.ts';

interface AgentPickerProps {
  readonly value: string;
  readonly onChange: (agentId: string) => void;
  readonly error?: string | undefined;
}

/** Agents that are offered at once. */
const OFFERED = 30;

/** Chooses an agent among those with a part of a name. */
export function AgentPicker({ value, onChange, error }: AgentPickerProps) {
  const [text, setText] = useState('');
  const q = useSettled(text);
  const agents = useQuery({
    queryKey: ['agents', 'picked', q],
    queryFn: () =>
      readPage(nightshift.agents.list({ ...(q !== '' && { query_text: q }), limit: OFFERED, order: 'desc' })),
    placeholderData: (before) => before,
  });
  const chosen = useQuery({
    queryKey: ['agent', value],
    queryFn: () => nightshift.agents.retrieve(value),
    enabled: value !== '',
  });
  const offered = (agents.data ?? []).filter(({ id }) => id !== value).slice(0, OFFERED);
  return (
    <div className="fields">
      <FormField label="Find an agent">
        {(ties) => (
          <input
            {...ties}
            className="input"
            type="search"
            placeholder="Name contains"
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
        )}
      </FormField>
      <FormField
        label="Agent"
        error={error}
        hint={agents.data?.length === 0 && 'No agent has this in its name.'}
      >
        {(ties) => (
          <select
            {...ties}
            className="input"
            required
            value={value}
            onChange={({ target }) => onChange(target.value)}
          >
            <option value="">Choose</option>
            {value !== '' && <option value={value}>{chosen.data?.name ?? value}</option>}
            {offered.map(({ id, name, model }) => (
              <option key={id} value={id}>
                {name} · {model}
              </option>
            ))}
          </select>
        )}
      </FormField>
    </div>
  );
}
