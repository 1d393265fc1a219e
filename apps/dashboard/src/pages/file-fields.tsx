import { count } from '../parts/numbers.tsx';
import { FormField } from '../parts/form-field.tsx';
import { isPacked, type FileSample } from './batch-file.ts';

interface FileFieldsProps {
  readonly file: File | null;
  readonly onChange: (file: File | null) => void;
  readonly sample: FileSample | undefined;
  readonly error: string | undefined;
}

/** Chooses the file of a batch. */
export function FileFields({ file, onChange, sample, error }: FileFieldsProps) {
  return (
    <FormField
      label="File with a request on each line, as JSON"
      error={error}
      hint={
        file === null ? (
          <code>{'{"custom_id": "ticket-1", "agent_id": "agent-…", "input": "My invoice is wrong."}'}</code>
        ) : (
          <>
            <p>
              {file.name}, {count(file.size)} bytes
            </p>
            <SettingsNote file={file} sample={sample} />
          </>
        )
      }
    >
      {(ties) => (
        <input
          {...ties}
          className="input"
          type="file"
          accept=".jsonl,.ndjson,.json,.gz,.zst"
          required={file === null}
          onChange={({ target }) => onChange(target.files?.[0] ?? null)}
        />
      )}
    </FormField>
  );
}

function SettingsNote({ file, sample }: { readonly file: File; readonly sample: FileSample | undefined }) {
  if (isPacked(file))
    return (
      <p>It is packed: it is sent as it is, and the settings below do not count. It can name its own.</p>
    );
  return sample?.hasSettings === true ? (
    <p>Its first line has the settings of the batch; the settings below do not count.</p>
  ) : null;
}
