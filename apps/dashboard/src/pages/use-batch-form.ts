import type { BatchCreate } from '@nightshift/client';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useMemo, useState } from 'react';
import { nightshift } from '../api/client.ts';
import { batchOf, keepDraft, keptDraft, NEW_BATCH, settingsOf, type BatchDraft } from './batch-draft.ts';
import { isPacked, readSample, sendFile } from './batch-file.ts';
import { InputsError } from './parse-inputs.ts';
import { useEstimate } from './use-estimate.ts';

interface Read {
  readonly body: BatchCreate | null;
  readonly inputsError: string | undefined;
}

function readDraft(draft: BatchDraft): Read {
  try {
    return { body: batchOf(draft), inputsError: undefined };
  } catch (error) {
    if (error instanceof InputsError) return { body: null, inputsError: error.message };
    throw error;
  }
}

/** Returns 128 random bits. A key of the same batch, sent again after a lost answer, makes it once. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join('-');
}

/** Holds the form of a batch: its draft and file, its estimate, and its submission. */
export function useBatchForm() {
  const [draft, setDraft] = useState(keptDraft);
  const [file, setFile] = useState<File | null>(null);
  useEffect(() => keepDraft(draft), [draft]);
  const sample = useQuery({
    queryKey: ['file', file?.name, file?.size, file?.lastModified],
    queryFn: () => (file === null ? null : readSample(file)),
    enabled: file !== null && !isPacked(file),
    retry: false,
  });
  const { body, inputsError } = useMemo(() => readDraft(draft), [draft]);
  const requests = sample.data?.hasSettings === false ? sample.data.requests : undefined;
  const asked = useMemo(
    () => (draft.way !== 'file' ? body : requests === undefined ? null : { ...settingsOf(draft), requests }),
    [draft, body, requests],
  );
  const estimating = useEstimate(asked);
  const key = useMemo(() => ({ of: [draft, file], key: randomKey() }), [draft, file]);
  const navigate = useNavigate();
  const submit = useMutation({
    mutationFn: () => {
      if (draft.way !== 'file' && body !== null)
        return nightshift.batches.create(body, { idempotencyKey: key.key });
      if (draft.way === 'file' && file !== null)
        return sendFile(file, settingsOf(draft), sample.data?.hasSettings === true, key.key);
      throw new Error('Something is missing. Fill the required fields, then submit again.');
    },
    onSuccess: async ({ id }) => {
      keepDraft(null);
      await navigate({ to: '/batches/$batchId', params: { batchId: id } });
    },
  });
  return {
    draft,
    set: (changes: Partial<BatchDraft>): void => setDraft((before) => ({ ...before, ...changes })),
    clear: (): void => {
      setDraft(NEW_BATCH);
      setFile(null);
      submit.reset();
    },
    file: { chosen: file, choose: setFile, sample: sample.data ?? undefined, error: sample.error?.message },
    inputsError,
    estimating,
    isReady: draft.way === 'file' ? file !== null : body !== null,
    submit,
  };
}
