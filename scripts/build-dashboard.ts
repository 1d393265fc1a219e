import { readCommandLine } from './command-line.ts';
import { buildDashboard } from './dashboard/build-dashboard.ts';

readCommandLine({
  name: 'build-dashboard',
  what: 'Builds apps/dashboard/dist, which the API serves, if its sources have changed.',
  takes: 'a few seconds',
  flags: {},
});
console.log((await buildDashboard()) ? 'Built apps/dashboard/dist.' : 'apps/dashboard/dist is up to date.');
