import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { App } from './app.tsx';
import { readBatchFilters } from './pages/batch-filters.ts';
import { NotFound } from './pages/not-found.tsx';
import { readRunTab } from './pages/run-tabs.ts';
import { readReviewFilters } from './pages/review/filters.ts';

const root = createRootRoute({ component: App, notFoundComponent: NotFound });
const at = <const Path extends string>(path: Path) => ({ getParentRoute: () => root, path });

const pages = [
  createRoute({
    ...at('/'),
    component: lazyRouteComponent(() => import('./pages/overview.tsx'), 'Overview'),
  }),
  createRoute({
    ...at('/batches'),
    validateSearch: readBatchFilters,
    component: lazyRouteComponent(() => import('./pages/batches.tsx'), 'Batches'),
  }),
  createRoute({
    ...at('/batches/new'),
    component: lazyRouteComponent(() => import('./pages/new-batch.tsx'), 'NewBatch'),
  }),
  createRoute({
    ...at('/batches/$batchId'),
    component: lazyRouteComponent(() => import('./pages/batch.tsx'), 'BatchPage'),
  }),
  createRoute({
    ...at('/runs/$runId'),
    validateSearch: readRunTab,
    component: lazyRouteComponent(() => import('./pages/run.tsx'), 'RunPage'),
  }),
  createRoute({
    ...at('/review'),
    component: lazyRouteComponent(() => import('./pages/reviews.tsx'), 'Reviews'),
  }),
  createRoute({
    ...at('/review/$batchId'),
    validateSearch: readReviewFilters,
    component: lazyRouteComponent(() => import('./pages/review.tsx'), 'Review'),
  }),
  createRoute({
    ...at('/memories'),
    validateSearch: ({ q }): { readonly q?: string } => (typeof q === 'string' ? { q } : {}),
    component: lazyRouteComponent(() => import('./pages/memories.tsx'), 'Memories'),
  }),
  createRoute({
    ...at('/memories/$agentId'),
    component: lazyRouteComponent(() => import('./pages/agent.tsx'), 'AgentPage'),
  }),
  createRoute({
    ...at('/blocks/$blockId'),
    validateSearch: ({ revision }): { readonly revision?: number } =>
      typeof revision === 'number' ? { revision } : {},
    component: lazyRouteComponent(() => import('./pages/block.tsx'), 'BlockPage'),
  }),
  createRoute({
    ...at('/schedules'),
    component: lazyRouteComponent(() => import('./pages/schedules.tsx'), 'Schedules'),
  }),
  createRoute({
    ...at('/schedules/new'),
    component: lazyRouteComponent(() => import('./pages/new-schedule.tsx'), 'NewSchedule'),
  }),
  createRoute({
    ...at('/schedules/$scheduleId'),
    component: lazyRouteComponent(() => import('./pages/schedule.tsx'), 'SchedulePage'),
  }),
  createRoute({
    ...at('/workers'),
    component: lazyRouteComponent(() => import('./pages/workers.tsx'), 'Workers'),
  }),
  createRoute({
    ...at('/settings'),
    component: lazyRouteComponent(() => import('./pages/settings.tsx'), 'Settings'),
  }),
] as const;

export const router = createRouter({ routeTree: root.addChildren(pages), defaultPreload: 'intent' });

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
