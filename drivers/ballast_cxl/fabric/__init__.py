"""The appliance, behind one small interface.

interface.py   what a blade can be asked, and the ways it can fail
http.py        one appliance's HTTP service: short timeouts, credentials, a breaker
shared.py      one read for all who wait for the same thing
redfish.py     Redfish, which tells the whole truth and can do everything
cfm.py         Seagate's CFM, which composes by its own rules, with Redfish to see what came of it
connect.py     a CXLBlade to its client
"""
