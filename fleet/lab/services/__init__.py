"""Services beside the clusters of a lab: a forge and an S3 server, as real as the clusters.

They are processes of the lab with their data below its directory, so `down` removes them like everything else. A lab
may have services and no cluster.
"""

from fleet.lab.services.lifecycle import SERVICES, find_service, read_status, start_services, stop_services
from fleet.lab.services.service import ServiceRecord

__all__ = ["SERVICES", "ServiceRecord", "find_service", "read_status", "start_services", "stop_services"]
