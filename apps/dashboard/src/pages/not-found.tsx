import { Page } from '../parts/page.tsx';
import { Empty } from '../parts/notices.tsx';

export function NotFound() {
  return (
    <Page title="No such page">
      <Empty>The address names no page. Choose one from the rail.</Empty>
    </Page>
  );
}
