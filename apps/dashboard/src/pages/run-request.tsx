import type { Run, Step, StepRequest } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { Bar } from '../parts/bar.tsx';
import { LongText } from '../parts/long-text.tsx';
import { Empty } from '../parts/notices.tsx';
import { count } from '../parts/numbers.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { Time } from '../parts/time.tsx';
import { textsOf } from './request-texts.ts';
import { nameOfStep, useSteps } from './run-steps.ts';
import { SameAs } from './same-as.tsx';

interface RunRequestProps {
  readonly run: Run;
  /** The step to show; the last by default. */
  readonly stepId: string | undefined;
}

/** Shows what the model saw in a step: the parts of its request, and their tokens. */
export function RunRequest({ run, stepId }: RunRequestProps) {
  const steps = useSteps(run);
  return (
    <QueryPart of={steps}>
      {(list) => {
        const step = list.find(({ id }) => id === stepId) ?? list.at(-1);
        if (step === undefined) return <Empty>No request was made yet.</Empty>;
        return (
          <>
            <StepChoice run={run} steps={list} chosen={step} />
            <Request step={step} />
          </>
        );
      }}
    </QueryPart>
  );
}

interface StepChoiceProps {
  readonly run: Run;
  readonly steps: readonly Step[];
  readonly chosen: Step;
}

function StepChoice({ run, steps, chosen }: StepChoiceProps) {
  const navigate = useNavigate();
  const choose = (step: string): void =>
    void navigate({
      to: '/runs/$runId',
      params: { runId: run.id },
      search: { tab: 'request', step },
      replace: true,
    });
  return (
    <label className="field request-step">
      <span>Step</span>
      <select className="input" value={chosen.id} onChange={({ target }) => choose(target.value)}>
        {steps.map((step) => (
          <option key={step.id} value={step.id}>
            {nameOfStep(step)} · {step.state}
          </option>
        ))}
      </select>
    </label>
  );
}

function Request({ step }: { readonly step: Step }) {
  const path = `/v1/steps/${step.id}/request`;
  const request = useQuery({
    queryKey: ['step', step.id, 'request', step.state],
    queryFn: async () => {
      const answer = await nightshift.runs.stepRequest(step.id);
      return { ...answer, texts: textsOf(answer) };
    },
  });
  return (
    <QueryPart of={request}>
      {({ texts, ...answer }) => (
        <>
          <p className="row small section">
            <span className="muted">
              {answer.model} · {count(answer.bytes)} bytes
              {answer.sent_at !== null && (
                <>
                  {' '}
                  · sent <Time at={answer.sent_at} />
                </>
              )}
            </span>
            <a className="button" href={path} download={`${step.id}-request.json`}>
              Save as JSON
            </a>
          </p>
          {answer.inexact_because.map((reason) => (
            <p key={reason} className="notice">
              {INEXACT[reason]}
            </p>
          ))}
          <Parts answer={answer} />
          {texts.map(({ name, text, isCode }) => (
            <details key={name} className="section" open={name !== 'Tools' && name !== 'Settings'}>
              <summary>
                <strong>{name}</strong> <span className="muted">· {count(text.length)} characters</span>
              </summary>
              <LongText text={text} fileName={`${step.id}-${name}.txt`} isCode={isCode} />
            </details>
          ))}
          <SameAs command={`npx nightshift api GET ${path}`} path={path} />
        </>
      )}
    </QueryPart>
  );
}

const INEXACT: Readonly<Record<StepRequest['inexact_because'][number], string>> = {
  not_sent: 'The request waits to be sent. It may still get fewer tokens, or become a request for a summary.',
  cache_marks_not_kept:
    'An earlier release has sent the request. The cache marks in it were not kept; the model saw the same.',
  conversation_reset:
    'The conversation was reset since. The count of earlier messages in the memory is not what the model saw.',
  labels_not_kept:
    'An earlier release has sent the request. Blocks have their present labels, perhaps not those of then.',
};

const NAMES: Readonly<Record<StepRequest['parts'][number]['part'], string>> = {
  tools: 'Tools',
  system: 'System prompt',
  memory: 'Memory',
  summary: 'Summary',
  messages: 'Messages',
};

function Parts({ answer: { parts, tokens, bytes } }: { readonly answer: Omit<StepRequest, 'request'> }) {
  return (
    <>
      <div className="table section">
        <table aria-label="Parts of the request">
          <thead>
            <tr>
              <th scope="col">Part</th>
              <th scope="col" className="request-share">
                Share
              </th>
              <th scope="col" className="number">
                Tokens
              </th>
              <th scope="col" className="number">
                From the cache
              </th>
              <th scope="col" className="number wide-only">
                Into the cache
              </th>
            </tr>
          </thead>
          <tbody>
            {parts.map((part) => (
              <tr key={part.part}>
                <td>{NAMES[part.part]}</td>
                <td className="request-share">
                  <Bar done={part.tokens ?? part.bytes} total={tokens ?? bytes} />
                </td>
                <td className="number">{known(part.tokens)}</td>
                <td className="number">{known(part.cache_read_tokens)}</td>
                <td className="number wide-only">{known(part.cache_write_tokens)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="small muted cut-note">
        {tokens === null
          ? 'Without an answer no tokens are known; the bars show bytes.'
          : `${count(tokens)} tokens were billed for the prompt. The shares are estimated by size.`}
      </p>
    </>
  );
}

const known = (tokens: number | null): string => (tokens === null ? '–' : count(tokens));
