import type { Schedule } from '@nightshift/client';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { nightshift } from '../api/client.ts';
import { Section } from '../parts/page.tsx';
import { draftOf, scheduleOf } from './schedule-draft.ts';
import { ScheduleForm } from './schedule-form.tsx';

interface EditScheduleProps {
  readonly schedule: Schedule;
  readonly onEnd: () => void;
}

/** Changes a schedule as it stood when the form was opened; the API refuses it if another change came first. */
export function EditSchedule({ schedule, onEnd }: EditScheduleProps) {
  const [opened] = useState(schedule);
  const [draft, setDraft] = useState(() => draftOf(opened));
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: async () =>
      nightshift.schedules.update(opened.id, { ...scheduleOf(draft), expected_revision: opened.revision }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['schedules'] });
      onEnd();
    },
  });
  return (
    <Section title="Change this schedule">
      <ScheduleForm
        draft={draft}
        onChange={setDraft}
        save={save}
        onSave={() => save.mutate()}
        action="Save the change"
      >
        <button type="button" className="button" onClick={onEnd}>
          Keep it as it was
        </button>
      </ScheduleForm>
    </Section>
  );
}
