import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { nightshift } from '../api/client.ts';
import { Page } from '../parts/page.tsx';
import { NEW_DRAFT, scheduleOf } from './schedule-draft.ts';
import { ScheduleForm } from './schedule-form.tsx';

/** Makes a schedule. */
export function NewSchedule() {
  const [draft, setDraft] = useState(NEW_DRAFT);
  const queries = useQueryClient();
  const navigate = useNavigate();
  const save = useMutation({
    mutationFn: async () => nightshift.schedules.create(scheduleOf(draft)),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['schedules'] });
      await navigate({ to: '/schedules/$scheduleId', params: { scheduleId: id } });
    },
  });
  return (
    <Page title="New schedule">
      <ScheduleForm
        draft={draft}
        onChange={setDraft}
        save={save}
        onSave={() => save.mutate()}
        action="Make the schedule"
      />
    </Page>
  );
}
