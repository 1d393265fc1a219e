import { ErrorNotice } from '../parts/notices.tsx';
import { counted } from '../parts/numbers.tsx';
import { Page } from '../parts/page.tsx';
import type { Way } from './batch-draft.ts';
import { EstimatePanel } from './batch-estimate.tsx';
import { BatchFields } from './batch-fields.tsx';
import { isPacked } from './batch-file.ts';
import { FileFields } from './file-fields.tsx';
import { FleetFields } from './fleet-fields.tsx';
import { TemplateFields } from './template-fields.tsx';
import { useBatchForm } from './use-batch-form.ts';
import '../style/new-batch.css';

const WAYS: readonly { readonly way: Way; readonly name: string; readonly says: string }[] = [
  { way: 'template', name: 'Template', says: 'One agent, one text, many inputs.' },
  { way: 'fleet', name: 'Fleet', says: 'Many agents, a run for each.' },
  { way: 'file', name: 'File', says: 'A request on each line.' },
];

/** Makes a batch of a template, a fleet or a file, with a live estimate beside the form. */
export function NewBatch() {
  const form = useBatchForm();
  const { draft, set, submit, estimating, file, inputsError, clear } = form;
  const error = submit.error ?? estimating.error;
  const fields = { draft, set, error, inputsError };
  return (
    <Page
      title="New batch"
      actions={
        <button type="button" className="button" onClick={clear}>
          Clear the form
        </button>
      }
    >
      <div className="new-batch">
        <form
          className="form"
          onSubmit={(event) => {
            event.preventDefault();
            submit.mutate();
          }}
        >
          <Ways way={draft.way} onChange={(way) => set({ way })} />
          {draft.way === 'template' && <TemplateFields {...fields} />}
          {draft.way === 'fleet' && <FleetFields {...fields} />}
          {draft.way === 'file' && (
            <FileFields file={file.chosen} onChange={file.choose} sample={file.sample} error={file.error} />
          )}
          <BatchFields {...fields} />
          {submit.error !== null && <ErrorNotice error={submit.error} />}
          <p className="row">
            <button
              type="submit"
              className="button button-main"
              disabled={submit.isPending || inputsError !== undefined}
            >
              {submit.isPending ? 'Submitting …' : 'Submit batch'}
            </button>
          </p>
        </form>
        <EstimatePanel {...estimating} note={noteOf(form)} />
      </div>
    </Page>
  );
}

interface WaysProps {
  readonly way: Way;
  readonly onChange: (way: Way) => void;
}

function Ways({ way, onChange }: WaysProps) {
  return (
    <fieldset className="ways">
      <legend className="unseen">Made of</legend>
      {WAYS.map(({ way: value, name, says }) => (
        <label key={value} className="way">
          <input type="radio" name="way" checked={way === value} onChange={() => onChange(value)} />
          <span>
            <strong>{name}</strong>
            <span className="small muted">{says}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

/** Says what the form lacks for an estimate, or what the estimate does not cover. */
function noteOf({ draft, file, isReady, inputsError }: ReturnType<typeof useBatchForm>): string | undefined {
  if (inputsError !== undefined) return 'The inputs cannot be read yet.';
  if (draft.way !== 'file')
    return isReady ? undefined : 'It comes as soon as the form says which agents do what.';
  if (file.chosen === null) return 'It comes when a file is chosen.';
  if (isPacked(file.chosen)) return 'A packed file is not read here. Ask for an estimate by the command.';
  if (file.sample?.hasSettings === true) return 'A file with settings of its own is not estimated here.';
  return file.sample === undefined || file.sample.isWhole
    ? undefined
    : `Of the first ${counted(file.sample.requests.length, 'request')} of the file.`;
}
