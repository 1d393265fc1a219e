import { FormField } from '../parts/form-field.tsx';

interface TextFieldProps {
  readonly value: string;
  /** What the API says of the field. */
  readonly error: string | undefined;
  readonly onChange: (value: string) => void;
}

/** The labels of the blocks that a rewrite of memories may change. */
export function BlocksField({ value, error, onChange }: TextFieldProps) {
  return (
    <FormField
      label="Blocks"
      error={error}
      hint="Labels of the blocks that are rewritten, separated by spaces."
    >
      {(ties) => (
        <input
          {...ties}
          className="input"
          required
          placeholder="summary preferences"
          value={value}
          onChange={({ target }) => onChange(target.value)}
        />
      )}
    </FormField>
  );
}

/** What a rewrite of memories is told. */
export function InstructionField({ value, error, onChange }: TextFieldProps) {
  return (
    <FormField label="Instruction" error={error}>
      {(ties) => (
        <textarea
          {...ties}
          className="input"
          placeholder="Keep what matters for the next talk; drop what is settled."
          value={value}
          onChange={({ target }) => onChange(target.value)}
        />
      )}
    </FormField>
  );
}
